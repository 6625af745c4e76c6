"""Runs commands where nothing of this checkout is on the path."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What a run says of which some tests were selected, and all of them passed.
KEPT = re.compile(r"Of the selected tests [1-9]\d* passed.*: nothing broken\.")


def run(command: Iterable[object], folder: Path, status: int = 0, timeout: float = 1800) -> str:
    """Run a command that must end with a status, and say what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON", "COV_"))}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={**kept, "COLUMNS": "120", "NO_COLOR": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == status, f"{shlex.join(map(str, command))}\n{done.stdout}"
    return done.stdout
