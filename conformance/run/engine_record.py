"""Cache the outcomes of the tests of PyTorch itself: once for an environment; later runs of a subject read them.

The record of an environment is a file in the user's cache. It holds the outcomes of one run in which every clause that
applied was kept: a broken clause is tested and reported in every run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from conformance.core.caches import user_cache
from conformance.core.errors import UsageError
from conformance.core.options import RunOptions
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest

#: If this variable is set, every run tests PyTorch itself.
FRESH = "CONFORMANCE_FRESH"
#: Variables that begin like this change what PyTorch does.
VARIABLES = ("ATEN_", "CUDA_", "GLOO_", "KMP_", "LD_", "MKL_", "NCCL_", "OMP_", "PYTHON", "PYTORCH", "TORCH")
#: Folders of a package whose code never runs.
LEFT_OUT = {"__pycache__", "include", "share"}


@dataclass(frozen=True)
class EngineRecord:
    """The record of one environment: its file, and what must be unchanged for it to be used."""

    path: Path
    environment: str

    def read(self, tests: Iterable[PlannedTest]) -> tuple[str, list[TestOutcome]]:
        """Return when PyTorch was tested (ISO 8601), and the outcomes of the tests of it that a run would run.

        Both are empty if the record lacks one of them.
        """
        wanted = _to_run(tests)
        try:
            head, *lines = self.path.read_text("utf-8").splitlines()
            about = json.loads(head)
            known = {outcome.nodeid: outcome for outcome in map(TestOutcome.from_text, lines)}
            if about["environment"] == self.environment:
                return str(about["tested"]), [known[name] for name in wanted]
        except (OSError, ValueError, TypeError, KeyError):
            pass  # it is missing, has fewer tests, or is damaged
        return "", []

    def write(self, tests: Iterable[PlannedTest], outcomes: Iterable[TestOutcome], tested: str) -> None:
        """Record the outcomes of PyTorch's own tests, if all of them ran and none broke.

        If the folder cannot be written to, the next run tests again.
        """
        wanted = _to_run(tests)
        good = {own.nodeid: own for own in outcomes if own.outcome in {"pass", "not-applicable"}}
        if not wanted or not good.keys() >= set(wanted):
            return
        head = json.dumps({"environment": self.environment, "tested": tested})
        text = "\n".join([head, *(good[name].to_text() for name in wanted)])
        from conformance.report import files

        with suppress(OSError, UsageError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.write(self.path, text)


def engine_record(options: RunOptions, passed_on: Sequence[str]) -> EngineRecord | None:
    """Return the record for a run, or None if it must not be used.

    It is not used if the user's own code runs first, if tests are selected, if pytest was given arguments (which may do
    either), or on an accelerator, whose driver and model are unknown here.
    """
    if options.setup or options.expression or passed_on or options.device != "cpu" or os.environ.get(FRESH):
        return None
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return None
    place = hashlib.sha256(os.fsencode(sys.prefix)).hexdigest()[:16]
    with suppress(OSError, RuntimeError):  # a folder is unreadable, or there is no home
        environment = "\n".join(_environment(options, Path(torch.origin).parent))
        digest = hashlib.sha256(environment.encode("utf-8", "surrogateescape")).hexdigest()
        return EngineRecord(user_cache() / "engine" / f"{place}.jsonl", digest)
    return None


def _to_run(tests: Iterable[PlannedTest]) -> list[str]:
    return [test.nodeid for test in tests if test.test.tests_engine and not (test.why_not or test.left_out)]


def _environment(options: RunOptions, torch: Path) -> Iterator[str]:
    """Collect everything that PyTorch's outcomes depend on, as far as it is known without importing it."""
    # The node too: nodes with different processors may share a home.
    yield f"{sys.version} {platform.platform()} {platform.node()} {options.backend}"
    yield from sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(VARIABLES))
    # Installing or removing a package changes the folder of PyTorch; PyTorch itself loads some packages.
    yield f"{torch.parent} {torch.parent.stat().st_mtime_ns}"
    yield from sorted(_code(torch))
    yield from sorted(_code(Path(__file__).parents[1]))


def _code(folder: str | Path) -> Iterator[str]:
    """List the code files below a folder with size and time of change: 2,300 of PyTorch's take 15 ms."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in LEFT_OUT:
                yield from _code(entry.path)
        elif entry.name.endswith(".py") or ".so" in entry.name:
            own = entry.stat()
            yield f"{entry.path} {own.st_size} {own.st_mtime_ns}"
