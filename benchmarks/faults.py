"""Faults of a subject: what this suite says of each and how fast, beside PyTorch's own harnesses.

``python -m benchmarks.faults`` writes docs/data/faults.json and the tables of docs/how-it-works.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.fault_page import COMPARED, DEADLINE, HERE, PEER_DEADLINE, PEER_LIMIT, PEERS, peer_cell, tables
from benchmarks.measure import ROOT, machine

DATA = ROOT / "docs" / "data" / "faults.json"
PAGE = ROOT / "docs" / "how-it-works.md"


def ours(faults: Sequence[str], sizes: Sequence[int], device: str = "cpu") -> list[dict[str, Any]]:
    """Every fault in forward and in backward: verdict, seconds to notice, seconds until a new world is ready."""
    places = [(fault, place) for fault in faults for place in places_of(fault)]
    found = []
    for size in sizes:
        rows = in_a_run(places, size, device)
        for row, recovery in zip(rows, recoveries(places, size, device), strict=True):
            found.append({**row, "recovery": recovery})
    order = {place: number for number, place in enumerate(places)}
    return sorted(found, key=lambda row: (order[row["fault"], row["place"]], row["ranks"]))


def places_of(fault: str) -> tuple[str, ...]:
    """Where a fault is set off."""
    return ("forward", "backward", "end")[: 3 if f"end_{fault}" in COMPARED else 2]


def in_a_run(places: Sequence[tuple[str, str]], size: int, device: str) -> list[dict[str, Any]]:
    """What the report of one whole run says of every fault, and of the good subject that came after it."""
    subjects = [name for fault, place in places for name in (f"{place}_{fault}", f"Good_{place}_{fault}")]
    report = report_of(subjects, size, DEADLINE, "--device", device)
    rows = []
    for fault, place in places:
        found, after = report[f"{place}_{fault}"], report[f"Good_{place}_{fault}"]
        said = found["message"].splitlines()
        rows.append(
            {
                "fault": fault,
                "place": place,
                "ranks": size,
                "verdict": found["outcome"],
                "seconds": round(found["seconds"], 3),
                "late": found["outcome"] == "timeout",
                "said": said[0][:120] if said else "",
                "changed": sorted({name for rank in found["ranks"] for name in rank["changed"]}),
                "lost": [] if after["outcome"] == "pass" else [after["outcome"]],
            }
        )
    return rows


def report_of(subjects: Sequence[str], size: int, deadline: float, *more: str) -> dict[str, dict[str, Any]]:
    """Run the command with hostile subjects; by subject, what its report has of the one test that each goes through."""
    from tests.faults.command import reported, run

    words = ("--spec", "AllGatherGradAutograd", "--ranks", str(size), "--timeout", f"{deadline:g}", *more)
    test = "test_gradient_is_the_sum_over_ranks and float64"
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        names = [f"hostile:{name}" for name in subjects]
        _, _, said = run(
            "run", *names, *words, "-k", test, "--no-compile", "--report", "out",
            cwd=Path(folder), within=PEER_LIMIT + 10 * len(subjects), env={"HOSTILE_MARK": "0"},
        )  # fmt: skip
        report = Path(folder, "out", "report.json")
        if not report.exists():
            sys.exit(f"the run left no report; it said:\n{said}")
        asked = {name: [t for t in reported(report, name) if t["reason"] != "not selected"] for name in names}
    return {name.partition(":")[2]: tests[0] for name, tests in asked.items()}


def recoveries(places: Sequence[tuple[str, str]], size: int, device: str) -> Iterator[float | None]:
    """Return by how many seconds a new world delays the test after a fault; None if the world stays."""
    from benchmarks.place import Place
    from conformance.ranks.client import Forkserver
    from tests.faults.running import new_pool, run

    where = Place.of(device)
    with (
        Forkserver(where.library) as forkserver,
        new_pool(forkserver, device=where.device, backend=where.backend) as pool,
    ):
        for fault, place in places:
            subject = f"{place}_{fault}"
            run(pool, subject, "test_calm", size)
            run(pool, subject, "test_fault", size, DEADLINE if hangs(fault) else None)
            usable = pool.group is not None and pool.group.usable
            recovery = recovered(pool, subject, size)
            yield None if usable else round(recovery, 3)


def ours_compared(faults: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the peers are put through, at two ranks and with their deadline, as the report of a run has it."""
    return {fault: _reported(fault) for fault in faults}


def _reported(fault: str) -> dict[str, Any]:
    """One run of the command: a subject with the fault, and a good one after it."""
    report = report_of([fault, "Good"], 2, PEER_DEADLINE)
    found, after = report[fault], report["Good"]
    return {"verdict": found["outcome"], "seconds": round(found["seconds"], 3), "after": after["outcome"]}


def hangs(fault: str) -> bool:
    """Whether a fault is waited for until the deadline."""
    from tests.test_faults import FAULTS

    return "timeout" in FAULTS[fault][0]


def recovered(pool: Any, subject: str, size: int) -> float:
    """By how much the next test takes longer than the same test in a world that is there already."""
    from tests.faults.running import run

    began = time.perf_counter()
    run(pool, subject, "test_later", size)
    middle = time.perf_counter()
    run(pool, subject, "test_later", size)
    return max(0.0, (middle - began) - (time.perf_counter() - middle))


def peer(script: str, fault: str) -> dict[str, Any]:
    """A peer's three tests, the second with the fault; nothing of it is left running."""
    words = [sys.executable, str(ROOT / "benchmarks" / "peers" / script), "2", fault]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    began = time.perf_counter()
    process = subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        out, _ = process.communicate(timeout=PEER_LIMIT)
        ended = True
    except subprocess.TimeoutExpired:
        ended = False
    finally:
        kill_session(process.pid)
    if not ended:
        out, _ = process.communicate()
    said = [json.loads(line.partition(b"SAID ")[2]) for line in out.splitlines() if line.startswith(b"SAID ")]
    tests = {test["test"]: test for test in said}
    return {
        **{
            name: tests.get(name, {"outcome": "no word", "seconds": None}) for name in ("test_1_before", "test_2_fault")
        },
        "test_3_after": tests.get("test_3_after", {"outcome": "not run", "seconds": None}),
        "seconds": round(time.perf_counter() - began, 1),
        "ended": ended,
    }


def kill_session(leader: int) -> None:
    """End every process of a session."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(place.name)) == leader:
                os.kill(int(place.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue


def write(data: Mapping[str, Any]) -> None:
    """Write the data and the page; what stands above the mark on the page is kept."""
    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    above = PAGE.read_text(encoding="utf-8").partition(HERE)[0]
    PAGE.write_text(above + tables(data), encoding="utf-8")


def main() -> int:
    """Measure, and write after each step, so that what was measured is not lost."""
    from tests.test_faults import FAULTS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", default=",".join(FAULTS), help="faults measured here; empty: the last figures")
    parser.add_argument("--peers", default=",".join(COMPARED), help="faults for the peers; empty: the last figures")
    parser.add_argument("--compared", action="store_true", help="what the peers are put through, in this suite")
    parser.add_argument("--page", action="store_true", help="only make the page again from the figures there are")
    parser.add_argument("--device", default="cpu", help="measure ours there, and write faults-DEVICE.json alone")
    parser.add_argument("--into", type=Path, default=DATA.parent, help="where that goes (default: docs/data)")
    arguments = parser.parse_args()
    here = machine()
    if arguments.device != "cpu":
        rows = ours(arguments.ours.split(","), (2,), arguments.device)
        file = arguments.into / f"faults-{arguments.device}.json"
        file.write_text(json.dumps({"machine": here, "ours": rows}, indent=1) + "\n", encoding="utf-8")
        return 0
    none: dict[str, Any] = {"ours": [], "peers": {}, "machine": here, "peers_machine": here}
    data = json.loads(DATA.read_text()) if DATA.exists() else none
    if arguments.page:
        write(data)
        return 0
    if arguments.ours:
        data |= {"machine": here, "ours": ours(arguments.ours.split(","), (2, 4))}
        write(data)
    if arguments.compared:
        data["ours_compared"] = ours_compared(COMPARED)
        write(data)
    if arguments.peers:
        data["peers_machine"] = here
    for fault in filter(None, arguments.peers.split(",")):
        for name, script in PEERS.items():
            data["peers"].setdefault(name, {})[fault] = peer(script, fault)
            write(data)
            print(fault, name, peer_cell(data["peers"][name][fault]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
