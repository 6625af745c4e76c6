"""``python conf/gpu.py``: on a machine with GPUs, run all that no machine without one can show, and keep the reports.

Every run is one of ``conformance run``; its report goes where the site finds it, as ``gpu-NAME.json``. Nothing needs
the network. ``--device emulated`` is the rehearsal: the same runs without a GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import results

ONE_RANK = ("--ranks", "1")
GATHER = ("spec_impl.ksuit:AllGatherGradAutograd", "--spec", "AllGatherGradAutograd")


@dataclass(frozen=True)
class Run:
    """One run that is owed: the name of its report, the words of its command, what it sets besides."""

    name: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def owed(device: str) -> tuple[Run, ...]:
    """The runs, on a type of device."""
    shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    return (
        Run("reference", ("--device", device)),
        Run("reference-second-device", ("--device", f"{device}:1", *ONE_RANK)),
        Run("reference-gloo-cpu", ("--device", "cpu")),  # the same machine and PyTorch, to tell the device's part
        Run("gathers-sharing-a-device", (*GATHER, "--device", device, "--ranks", "2,4"), shared),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Carry them out; the status is 0 where each has written a report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda (default), or emulated for a rehearsal")
    parser.add_argument("--into", type=Path, default=results.RESULTS, help="where the reports go")
    parser.add_argument("-k", dest="expression", help="run only the tests whose names match")
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs; all where none is named")
    given = parser.parse_args(argv)
    chosen = [run for run in owed(given.device) if not given.names or run.name in given.names]
    if not chosen:
        parser.error(f"no such run; there are {', '.join(run.name for run in owed(given.device))}")
    return max(_carried_out(run, given.into, given.expression) for run in chosen)


def _carried_out(run: Run, into: Path, expression: str | None) -> int:
    """Run one and keep its report; 1 where it has written none."""
    print(f"== {run.name}: conformance run {' '.join(run.words)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        chosen = ["-k", expression] if expression else []
        command = [sys.executable, "-m", "conformance", "run", *run.words, *chosen, "--report", folder]
        subprocess.run(command, env={**os.environ, **run.environment}, check=False)
        report = Path(folder, "report.json")
        if not report.exists():
            return 1
        results.keep(report, f"gpu-{run.name}", brief=run.name != "reference", into=into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
