"""Faults under a launcher, and how long until the run goes on: ``python -m benchmarks.cluster_faults``.

Two machines are network namespaces with a cable between them, as in the tests; it needs the right to make them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import ROOT, machine
from tests.cluster_nodes import Nodes, finish, two_nodes, wait_for

DATA = ROOT / "docs" / "data" / "cluster-faults.json"
SPEC = ("--spec", "AllGatherGradAutograd", "--ranks", "4", "-k", "sum_in_every_shape or entry_s_is")
DEADLINE = 3.0
#: Something happens to rank 3, on the second machine, in the fifth test of a world of four.
SUBJECT = """
import os, pathlib, signal, time
import torch.distributed as dist
from spec_impl.ksuit import AllGatherGradAutograd

HERE = pathlib.Path(__file__).parent
calls = 0

class Gather(AllGatherGradAutograd):
    @staticmethod
    def forward(ctx, x):
        global calls
        calls += 1
        if dist.get_world_size() == 4 and calls == 5 and not (HERE / "happened").exists():
            dist.barrier()
            if dist.get_rank() == 3:
                (HERE / "happened").touch()
                {what}
            dist.barrier()
        return AllGatherGradAutograd.forward(ctx, x)
"""
FAULTS = {
    "a rank is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "a rank hangs": "time.sleep(600)",
    "one machine's processes are killed, and started again": "time.sleep(600)",
    "the cable is cut": "time.sleep(600)",
}


def main() -> int:
    """Measure each fault and write the data."""
    rows = list(measured())
    DATA.write_text(json.dumps({"machine": machine(), "deadline": DEADLINE, "rows": rows}, indent=1) + "\n", "utf-8")
    return 0


def measured() -> Iterator[dict[str, Any]]:
    """One row for each fault."""
    for place, (fault, what) in enumerate(FAULTS.items()):
        with tempfile.TemporaryDirectory(prefix="cluster-") as folder, two_nodes(Path(folder)) as nodes:
            (nodes.folder / "subject.py").write_text(SUBJECT.format(what=what), encoding="utf-8")
            row = _row(nodes, 29600 + place, cut="cable" in fault, restart="again" in fault)
        print(fault, row, flush=True)
        yield {"fault": fault, **row}


def _row(nodes: Nodes, port: int, cut: bool, restart: bool) -> dict[str, Any]:
    words = ["subject:Gather", *SPEC, "--timeout", f"{DEADLINE:g}", "--report", "out"]
    options = ["--max-restarts=1"] if restart else []
    first, other = (nodes.launch(place, port, *words, options=options) for place in (0, 1))
    wait_for((nodes.folder / "happened").exists)
    began = time.monotonic()
    if restart:
        nodes.kill(1)
        other.communicate()
        began = time.monotonic()
        nodes.launch(1, port, *words, options=options)
    if cut:
        nodes.cut(1)
    noticed, going_on = _watched(nodes.folder / "out" / "outcomes.jsonl", began, alive=lambda: first.poll() is None)
    finish(first)
    tests = _tests(nodes.folder / "out" / "report.json")
    outcomes = [test["outcome"] for test in tests]
    return {
        "noticed": noticed,
        "going_on": going_on,
        "ended": round(time.monotonic() - began, 2),
        "outcomes": {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        "usual": round(median(test["seconds"] for test in tests if test["outcome"] == "pass"), 3),
    }


def _watched(journal: Path, began: float, alive: Any) -> tuple[float | None, float | None]:
    """Seconds until the next outcome is written, and the one after that: the first is of the test with the fault."""
    found: list[float] = []
    known = len(journal.read_text("utf-8").splitlines())
    while len(found) < 2 and alive():
        lines = len(journal.read_text("utf-8").splitlines())
        found += [round(time.monotonic() - began, 2)] * (lines - known)
        known = lines
        time.sleep(0.01)
    return (*found[:2], None, None)[0:2]


def _tests(report: Path) -> list[dict[str, Any]]:
    subjects = json.loads(report.read_text("utf-8"))["subjects"]
    tests = [test for subject in subjects for clause in subject["clauses"] for test in clause["tests"]]
    return [test for test in tests if test["reason"] != "not selected"]


if __name__ == "__main__":
    sys.exit(main())
