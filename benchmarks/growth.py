"""How wall time grows: with tests, with subjects, with ranks, with workers side by side."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.harness import command
from benchmarks.measure import figures, in_turn

#: The same subject under other names: each one is a subject of its own, with its own ranks.
SUBJECTS = [f"benchmarks.peers.alike:GradFactor{number}" for number in range(8)]


def measure(rounds: int) -> dict[str, Any]:
    """Seconds of each step of each ladder."""
    run = [sys.executable, "-m", "conformance", "run"]
    ladders = {
        "tests at 2 ranks": {str(count): command("this suite", 2, count) for count in (1, 100, 500, 1000)},
        "ranks, 50 tests": {str(size): command("this suite", size, 50) for size in (1, 2, 4, 8, 16, 32)},
        "subjects, one rank": {
            str(count): [*run, *SUBJECTS[:count], "--spec", "GradFactor", "--ranks", "1"] for count in (1, 2, 4, 8)
        },
        "workers (-n), the reference of AllGather": {
            name: [*run, "--spec", "AllGather", *options]
            for name, options in {"none": [], "1": ["-n", "1"], "2": ["-n", "2"]}.items()
        },
    }
    found = {}
    for name, commands in ladders.items():
        seconds = figures(in_turn(commands, rounds))
        found[name] = {step: seconds[step].to_json() for step in commands}
    return found
