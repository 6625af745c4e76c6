"""What is timed does what it says: a benchmark of a harness that has stopped working shows nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (("benchmarks/peers/ours.py", "2", "3"), "3 passed"),
        (("-m", "benchmarks.simulated", "simulated ranks", "2", "3"), "."),
        (("-m", "benchmarks.simulated", "arithmetic alone", "2", "3"), "."),
    ],
)
def test_a_harness_of_ours_runs_what_it_times(words: tuple[str, ...], last: str) -> None:
    """The numbers are for people; that there are any is tested."""
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, last in done.stdout) == (0, True), done.stdout + done.stderr
