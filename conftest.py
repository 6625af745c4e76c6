"""Examples are tests: those in docstrings of the sources, and the code blocks of docs and README."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
# Imported when a file with examples turns up: `conformance run` in a checkout needs none of it.
SOURCES = ("conformance", "spec_impl")
#: A package of its own, once `conformance spec new` has written it out.
collect_ignore = ["conformance/template"]
#: Files with few tests that take long begin first: then no worker is left alone with one of them at the end.
LONGEST_FIRST = (
    "tests/installed/test_wheel_guide.py",
    "tests/installed/test_wheel.py",
    "tests/installed/test_cluster_nodes.py",
    "tests/test_runner_runs.py",
    "tests/test_faults.py",
    "tests/test_reproduce.py",
    "tests/test_docs_clauses.py",
    "tests/test_cluster.py",
    "tests/test_runner_attacks.py",
    "tests/test_vandals.py",
    "tests/emulated/test_command.py",
    "tests/test_runner_starts.py",
    "tests/test_runner_ends.py",
    "tests/test_fixes.py",
    "tests/test_cli_expect.py",
    "tests/test_docs.py",
    "tests/test_published.py",
    "tests/test_plugin.py",
    "tests/test_documented_classes.py",
)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Called for every file that pytest looks at."""
    if not _has_examples(file_path):
        return None
    from tests.examples import collect

    return collect(file_path, parent)


def _has_examples(path: Path) -> bool:
    if not path.is_relative_to(ROOT):
        return False
    parts = path.relative_to(ROOT).parts
    if path.suffix == ".md":
        return (parts[0] == "docs" and "_build" not in parts) or parts == ("README.md",)
    return path.suffix == ".py" and parts[0] in SOURCES and parts[:2] != ("conformance", "suite")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Called for every path: the suite itself is run by `conformance run`, or when somebody names it."""
    unasked = config.args_source is not pytest.Config.ArgsSource.ARGS
    own = collection_path == ROOT / "conformance" / "suite" or collection_path.match("spec_impl/*/test_*.py")
    return True if unasked and own else None


def pytest_collection_finish() -> None:
    """Called once all tests are collected: they stay to the end, and no collector need go through them again."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Called once all tests are known: the longest files first, everything else in the order it was found."""
    places = {ROOT / name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


# Collecting makes objects that stay, in every worker: looking for garbage among them takes a fifth of the time.
gc.disable()

# Workers share the cores, and threads of several processes that wait for one another take thirty times as long as one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What an earlier run found of PyTorch itself is no part of a test: one run would print less than another.
os.environ.setdefault("CONFORMANCE_FRESH", "1")

# Run by nohup or in the background of a script, a process starts with these ignored, and so do the runs that it tests.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
