"""Times whole commands, in turn with each other, so that a machine whose speed drifts is fair to all of them."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: When a command that does not end is killed (seconds).
LIMIT = 900


@dataclass(frozen=True)
class Run:
    """One run of a command: seconds by the clock, seconds of processor time of all its processes, exit status."""

    wall: float
    cpu: float
    status: int


@dataclass(frozen=True)
class Figure:
    """What several runs gave: median, smallest and largest."""

    median: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """Summarize."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def to_json(self) -> dict[str, float]:
        """Plain data, rounded to what a clock can tell."""
        parts = {"median": self.median, "least": self.least, "most": self.most}
        return {**{name: round(value, 4) for name, value in parts.items()}, "runs": self.runs}


def once(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end."""
    start = time.perf_counter()
    process = subprocess.Popen(
        list(command),
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = start + LIMIT
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.perf_counter() > deadline:
            os.killpg(process.pid, 9)
        time.sleep(0.001)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return Run(wall, usage.ru_utime + usage.ru_stime, process.returncode)


def in_turn(commands: Mapping[str, Sequence[str]], rounds: int, **options: Mapping[str, str]) -> dict[str, list[Run]]:
    """Run every command once uncounted, then all of them in turn, several times."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            run = once(command, options.get(name))
            if number:
                runs[name].append(run)
    return runs


def ratios(runs: Mapping[str, Sequence[Run]], base: str, field: str = "wall") -> dict[str, Figure]:
    """Each command against ``base``, round by round."""
    return {
        name: Figure.of(
            [getattr(run, field) / getattr(other, field) for run, other in zip(own, runs[base], strict=True)]
        )
        for name, own in runs.items()
    }


def figures(runs: Mapping[str, Sequence[Run]], field: str = "wall") -> dict[str, Figure]:
    """Each command's own seconds."""
    return {name: Figure.of([getattr(run, field) for run in own]) for name, own in runs.items()}


def machine() -> dict[str, str]:
    """Describe what data were taken on, for the pages that show them: the day, the machine, the suite, its clauses."""
    import platform
    from datetime import UTC, datetime
    from importlib.metadata import version

    from conformance.core import clauses

    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": f"{os.cpu_count()} cores of {model}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": version("torch"),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "commit": _commit(),
        "clauses_sha256": clauses.digest(),
    }


def _commit() -> str:
    """The commit of this checkout, and whether files beside the docs differ from it; empty outside of a checkout."""
    commit, changes = (_git("rev-parse", "--short=7", "HEAD"), _git("status", "--porcelain", "--", ".", ":!docs"))
    return f"{commit} with changes" if commit and changes else commit


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True, check=False)
    return "" if done.returncode else done.stdout.strip()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
