"""The same gather checks under every harness: start included, cost of each further test, memory of a rank."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, Figure, figures, in_turn, ratios

PEERS = ROOT / "benchmarks" / "peers"
#: Above this many checks a harness that starts processes for every test is not run; its cost is linear.
MOST = {"MultiProcessTestCase": 20, "spawn per test": 20}
#: The most checks that are run at some world sizes: with many ranks on few cores everybody is slow.
MOST_AT = {4: 100, 8: 20}
#: At more ranks than this they are given one check alone.
FEW_RANKS = 2
NAMES = {
    "this suite": "ours.py",
    "MultiThreadedTestCase (no isolation)": "threaded.py",
    "MultiProcContinuousTest": "continuous.py",
    "spawn per test": "spawned.py",
    "MultiProcessTestCase": "multi_process.py",
}
TORCHRUN = "torchrun with pytest"


def command(name: str, world: int, checks: int) -> list[str]:
    """How a harness is started."""
    if name != TORCHRUN:
        return [sys.executable, str(PEERS / NAMES[name]), str(world), str(checks)]
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    tests = ["-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", str(PEERS / "test_launched.py")]
    return ["/usr/bin/env", f"CHECKS={checks}", "OMP_NUM_THREADS=1", sys.executable, *launch, *tests]


def measure(rounds: int, worlds: tuple[int, ...], counts: tuple[int, ...]) -> dict[str, Any]:
    """Ratios to ``import torch``, which every one of them pays at least once."""
    cells: list[dict[str, Any]] = []
    for world in worlds:
        for checks in counts:
            if checks > MOST_AT.get(world, checks):
                continue
            names = [name for name in (*NAMES, TORCHRUN) if checks <= most(name, world, checks)]
            commands = {"import torch": [sys.executable, "-c", "import torch"]}
            commands |= {name: command(name, world, checks) for name in names}
            runs = in_turn(commands, rounds if checks < 100 else min(rounds, 3))
            seconds, cpu, against = figures(runs), figures(runs, "cpu"), ratios(runs, "import torch")
            cells += [
                {
                    "harness": name,
                    "world": world,
                    "checks": checks,
                    "seconds": seconds[name].to_json(),
                    "cpu": cpu[name].to_json(),
                    "ratio": against[name].to_json(),
                    "failed": any(run.status for run in runs[name]),
                }
                for name in names
            ]
    return {"cells": cells, "further": further(cells), "memory": memory(worlds)}


def most(name: str, world: int, checks: int) -> int:
    """How many checks a harness is given at most in a world of some size."""
    if name not in MOST:
        return checks
    return MOST[name] if world <= FEW_RANKS else 1


def further(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Processor milliseconds of one more test: from the fewest checks to the most that a harness was given."""
    found = []
    for harness, world in dict.fromkeys((cell["harness"], cell["world"]) for cell in cells):
        own = sorted(
            (cell for cell in cells if (cell["harness"], cell["world"]) == (harness, world)),
            key=lambda cell: cell["checks"],
        )
        more = own[-1]["checks"] - own[0]["checks"]
        if more:
            spent = own[-1]["cpu"]["median"] - own[0]["cpu"]["median"]
            found.append({"harness": harness, "world": world, "cpu_ms": round(1000 * spent / more, 3)})
    return found


def memory(worlds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Proportional memory of a rank, at its peak, in MiB: of all processes of a harness, shared out over the ranks."""
    found = []
    smaller: dict[str, tuple[int, float]] = {}
    for world in worlds:
        for name in (*NAMES, TORCHRUN):
            peaks = [_peak(command(name, world, 20 if name not in MOST else 2)) for _ in range(2)]
            row = {"harness": name, "world": world, "mib": Figure.of([peak / world for peak in peaks]).to_json()}
            if name in smaller:
                size, peak = smaller[name]
                row["further"] = round((min(peaks) - peak) / (world - size), 1)
            smaller[name] = world, min(peaks)
            found.append(row)
    return found


def _peak(started: list[str]) -> float:
    process = subprocess.Popen(
        started, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(map(_pss, _with_descendants(process.pid))))
        time.sleep(0.02)
    return peak


def _with_descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
            except OSError:
                continue
    known = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in known} - known
        if not more:
            return sorted(known)
        known |= more


def _pss(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
