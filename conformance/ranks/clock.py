"""Time as it passes for ranks."""

from __future__ import annotations

import time
from collections.abc import Iterable

from conformance.ranks import procfs

#: How often a wait looks at the clock (seconds).
TICK = 0.5
#: A rank that takes a larger share of the time than this computes; one that waits takes next to nothing.
COMPUTES = 0.1
#: A test has time for this many calls of its subject.
CALLS = 400


def monotonic(_read=time.clock_gettime, _clock=time.CLOCK_MONOTONIC) -> float:  # type: ignore[no-untyped-def]
    """Seconds on the kernel's clock, which goes on where a test has made that of Python stand still."""
    return float(_read(_clock))


def sleep(seconds: float, _sleep=time.sleep) -> None:  # type: ignore[no-untyped-def]
    """Wait, where a test has had Python's function return at once."""
    _sleep(seconds)


def grown(deadline: float, call_seconds: Iterable[float]) -> float:
    """The deadline of a test, or what many calls of its subject take, given what one took on each rank.

    >>> grown(30.0, [0.01, 0.0]), grown(30.0, [2.0, 0.0])
    (30.0, 800.0)
    """
    return max(deadline, CALLS * max(call_seconds))


class RunningTime:
    """Seconds that ranks have had, by which their deadlines are kept.

    While they wait, that is the time that passes. While they compute, it is the processor time of the busiest one: on a
    busy machine they get little of it, and are slow without hanging. Time in which this process was stopped, or the
    machine asleep, is not a rank's: a gap much longer than what was waited for counts as a tick.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.last = monotonic()
        self.taken: dict[int, float] = {}

    def read(self, pids: Iterable[int] = ()) -> float:
        """The seconds so far; asked for at least once a tick.

        Args:
            pids: the ranks that have not finished.
        """
        now = monotonic()
        gap = now - self.last
        if gap < TICK / 2:  # processor time is counted in hundredths of a second: too few to tell
            return self.seconds + gap
        taken = {pid: procfs.processor_seconds(pid) for pid in pids}
        busiest = max((spent - self.taken.get(pid, spent) for pid, spent in taken.items()), default=0.0)
        self.last, self.taken = now, taken
        gap = gap if gap < 3 * TICK else TICK
        self.seconds += min(busiest, gap) if busiest > COMPUTES * gap else gap
        return self.seconds
