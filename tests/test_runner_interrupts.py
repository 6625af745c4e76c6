"""An interrupt at any stage of a run: status 2, and every report that is there is whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.command import FEW, ROOT, start
from tests.faults.running import SPEC

#: Sends SIGTERM when a module is first looked for, and once more if the run asks for it.
HOOK = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["STAGE"] and not os.environ.pop("DONE", None):
            os.environ["DONE"] = "1"
            sys.meta_path.remove(self)
            exec("os.kill(os.getpid(), signal.SIGTERM)")  # as dataclasses and namedtuples are made

if "conformance" in " ".join(sys.orig_argv) and "forkserver" not in " ".join(sys.orig_argv):
    sys.meta_path.insert(0, Finder())
"""
BEFORE = (
    "conformance.run.emulation", "conformance.ranks.client", "conformance.run.journal", "_pytest.config",
    "_pytest.terminal", "conformance.plugin.items", "rich.progress",
)  # fmt: skip
DURING = ("_pytest._argcomplete", "_pytest.tracemalloc", "unittest.signals")
AFTER = ("jinja2", "jinja2.loaders")


def test_an_interrupt_in_code_that_is_executed_ends_with_the_status_that_was_meant() -> None:
    code = (
        "import os, signal\nfrom conformance.run.interrupts import interruptible\n"
        "try:\n    with interruptible():\n        exec('os.kill(os.getpid(), signal.SIGTERM)')\n"
        "except KeyboardInterrupt:\n    raise SystemExit(2)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 2


@pytest.mark.parametrize("stage", [*DURING, *AFTER])
def test_an_interrupt_while_a_module_is_imported_leaves_a_whole_report(stage: str, tmp_path: Path) -> None:
    status, said = interrupted(stage, tmp_path)
    assert (status, "Traceback" in said) == (2, False), said
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["interrupted"] == (stage in DURING)
    assert (tmp_path / "out" / "report.html").read_text().rstrip().endswith("</html>")
    assert (tmp_path / "out" / "junit.xml").read_text().rstrip().endswith("</testsuites>")


@pytest.mark.parametrize("stage", BEFORE)
def test_an_interrupt_before_anything_ran_is_a_line(stage: str, tmp_path: Path) -> None:
    assert interrupted(stage, tmp_path) == (2, "conformance: interrupted\n")


def interrupted(stage: str, tmp_path: Path) -> tuple[int, str]:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    words = (
        "run",
        "hostile:Good",
        "--spec",
        SPEC,
        "--ranks",
        "1,2",
        "-k",
        FEW,
        "--report",
        "out",
        "--reproduce",
        "scripts",
    )
    path = ":".join(map(str, (tmp_path, ROOT / "tests" / "faults", ROOT)))
    status, _, said = start(*words, cwd=tmp_path, env={"STAGE": stage, "PYTHONPATH": path})
    return status, said
