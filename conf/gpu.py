"""``python conf/gpu.py``: on a machine with GPUs, run all that no machine without one can show, and keep the results.

Reports of the reference go to docs/results as ``gpu-NAME.json``; verdicts on published packages, faults and benchmarks
to docs/data with the name of the device. The site shows them from there. Nothing needs the network, but packages that
are not installed yet: those count as not run. ``--device emulated`` is the rehearsal: the same steps without a GPU.
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

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "data"
GATHER = ("spec_impl.ksuit:AllGatherGradAutograd", "--spec", "AllGatherGradAutograd")
FEW = ("-k", "one_value_for_each_input", "--spec", "AllGatherGradAutograd")
#: Where there are fewer GPUs than ranks, ranks share one: NCCL lets them from 2.30 on.
SHARED = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
#: What a rehearsal makes do with: the steps are the same, and take a minute instead of an hour.
SHORT = {
    "resolution": ("--only", "scaled sum"),
    "published": ("torch.utils.checkpoint",),
    "faults": ("--ours", "killed,lone_error"),
    "benchmarks": ("--sizes", "1 KiB", "--worlds", "2"),
}


@dataclass(frozen=True)
class Step:
    """One thing that is owed: a command, the file that it leaves, and what it sets besides."""

    name: str
    command: tuple[str, ...]
    #: A report of ``conformance run`` is shortened and kept; other commands write their file themselves.
    file: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def owed(device: str, data: Path, workers: str) -> tuple[Step, ...]:
    """The steps, on a type of device."""
    python, into = sys.executable, str(data)
    run = (python, "-m", "conformance", "run", "-n", workers)
    alone = {"CUDA_VISIBLE_DEVICES": "0"}
    return (
        Step("reference", (*run, "--device", device)),
        Step("reference-second-device", (*run, "--device", f"{device}:1", "--ranks", "1")),
        Step("reference-gloo-cpu", (*run, "--device", "cpu")),  # the same machine, to tell the device's part
        Step("gathers-sharing-a-device", (*run, *GATHER, "--device", device, "--ranks", "2,4"), environment=alone),
        Step(
            "resolution",
            (python, "-m", "tests.proof", "resolution", "--device", device, "--into", into),
            f"resolution-{device}.md",
        ),
        Step(
            "published",
            (python, "-m", "published", "--device", device, "--update", "--into", into, "--jobs", workers),
            f"published-{device}.json",
        ),
        Step(
            "faults",
            (python, "-m", "benchmarks.faults", "--device", device, "--into", into),
            f"faults-{device}.json",
        ),
        Step(
            "benchmarks",
            (python, "-m", "benchmarks", "gathers", "--device", device, "--into", into),
            f"bench-gathers-{device}.json",
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Carry them out; the status is 0 where each has left its file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda (default), or emulated for a rehearsal")
    parser.add_argument("--into", type=Path, help="one folder for everything, instead of docs/results and docs/data")
    parser.add_argument("-n", dest="workers", default="2", help="tests and packages side by side (default 2)")
    parser.add_argument("--short", action="store_true", help="a few tests of each step")
    parser.add_argument("names", nargs="*", metavar="NAME", help="steps; all where none is named")
    given = parser.parse_args(argv)
    data, reports = given.into or DATA, given.into or results.RESULTS
    steps = {step.name: step for step in owed(given.device, data, given.workers)}
    unknown = [name for name in given.names if name not in steps]
    if unknown:
        parser.error(f"there is no step {unknown[0]}; there are {', '.join(steps)}")
    data.mkdir(parents=True, exist_ok=True)
    missing = [name for name in given.names or steps if not _done(steps[name], data, reports, given.short)]
    print(f"no results from: {', '.join(missing)}" if missing else "all steps left their results", flush=True)
    return int(bool(missing))


def _done(step: Step, data: Path, reports: Path, short: bool) -> bool:
    """Carry out one step; whether it has left its file."""
    print(f"== {step.name}", flush=True)
    environment = {**os.environ, **SHARED, **step.environment}
    if step.file:
        words = SHORT[step.name] if short else ()
        subprocess.run([*step.command, *words], cwd=ROOT, env=environment, check=False)
        return (data / step.file).exists()
    with tempfile.TemporaryDirectory() as folder:
        words = FEW if short else ()
        subprocess.run([*step.command, *words, "--report", folder], cwd=ROOT, env=environment, check=False)
        report = Path(folder, "report.json")
        if report.exists():
            results.keep(report, f"gpu-{step.name}", brief=step.name != "reference", into=reports)
        return report.exists()


if __name__ == "__main__":
    sys.exit(main())
