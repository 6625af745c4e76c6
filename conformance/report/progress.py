"""The line that moves while tests run."""

from __future__ import annotations

import time
from collections import Counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from conformance.core.outcomes import BROKEN, TestOutcome
from conformance.report.sheet import Sheet
from conformance.report.text import one_line

_PERIOD = 30.0  # seconds between two lines of a log


class Progress:
    """Shows how far a run is: one moving line on a terminal, and in a log a line every half minute.

    It starts no thread, because the processes of a run are forked; it moves when a test ends.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._bar: Bar | None = None
        self._task = TaskID(0)
        self._spoke = 0.0

    def start(self, total: int) -> None:
        """Begin a run of ``total`` planned tests."""
        self._total, self._spoke = total, time.monotonic()
        if not self._console.is_terminal:
            return
        self._bar = Bar(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=total)
        self._bar.start()

    def advance(self, outcome: TestOutcome) -> None:
        """Count a test that has ended."""
        self._counts[outcome.outcome] += 1
        done = sum(self._counts.values())
        if self._bar:
            self._bar.update(self._task, completed=done, description=f"{self._tally()}  {one_line(outcome.clause, 50)}")
            self._bar.refresh()
        elif time.monotonic() - self._spoke >= _PERIOD:
            self._spoke = time.monotonic()
            Sheet(self._console).say(f"{done} of {self._total} tests: {self._tally()}")

    def stop(self) -> None:
        """Remove the line. May be called twice."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _tally(self) -> str:
        """Return the outcomes so far, the broken ones by name."""
        broken = [f"{self._counts[word]} {word}" for word in BROKEN if self._counts[word]]
        return ", ".join(broken) or "nothing broken"
