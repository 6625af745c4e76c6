"""What is timed does what it says: a benchmark of a harness that has stopped working shows nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("benchmarks/peers/ours.py", "2", "3"), r"\b3 passed\b"),
        (("-m", "benchmarks.simulated", "simulated ranks", "2", "3"), r"^\d*\.\d+(e-\d+)?$"),
        (("-m", "benchmarks.simulated", "arithmetic alone", "2", "3"), r"^\d*\.\d+(e-\d+)?$"),
    ],
)
def test_a_harness_of_ours_runs_what_it_times(words: tuple[str, ...], told: str) -> None:
    """The numbers are for people; that there are any is tested."""
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(told, done.stdout, re.MULTILINE), done.stdout
