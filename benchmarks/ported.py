"""A file of twenty tests on two ranks, as it was and as it is after the port, in each harness: start to end."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.measure import ROOT, figures, in_turn, ratios

FILES = ROOT / "benchmarks" / "peers" / "ported"
PYTEST = ("-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider")
BEFORE, AFTER = str(FILES / "before.py"), str(FILES / "test_after.py")
OURS = "this package"
COMMANDS = {
    OURS: (*PYTEST, AFTER),
    "MultiThreadedTestCase (no isolation)": (BEFORE, "threads"),
    "torchrun with pytest": (
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *(*PYTEST, "-p", "benchmarks.peers.ported.launched", AFTER),
    ),
    "MultiProcessTestCase": (BEFORE,),
}


def measure(rounds: int) -> list[dict[str, Any]]:
    """Seconds and processor time of each harness, and how many times the processor time of this package it takes."""
    runs = in_turn({name: [sys.executable, *words] for name, words in COMMANDS.items()}, rounds)
    seconds, cpu, against = figures(runs), figures(runs, "cpu"), ratios(runs, OURS, "cpu")
    return [
        {
            "harness": name,
            "seconds": seconds[name].to_json(),
            "cpu": cpu[name].to_json(),
            "ratio": against[name].to_json() if name != OURS else None,
            "failed": any(run.status for run in runs[name]),
        }
        for name in COMMANDS
    ]
