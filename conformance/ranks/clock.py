"""Measure time as ranks experience it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from conformance.ranks import procfs

#: How often a wait reads the clock (seconds).
TICK = 0.5
#: A rank computes if it uses a larger share of the time than this; a rank that waits uses almost none.
COMPUTES = 0.1
#: A test has time for this many calls of its subject.
CALLS = 400
#: A test has this many times its deadline while calls of its subject go on returning.
PATIENCE = 10
#: Once one rank has failed, how long the others may take before they count as stuck because of it: many times as long
#: as that rank took, which a slow machine draws out by itself, and between these bounds (seconds).
GRACE, GRACE_LEAST, GRACE_TIMES = 2.0, 0.5, 20
#: The same after a rank died: what the others wait for cannot come any more. Idle ranks get no time at all.
GRACE_AFTER_DEATH = 0.5


def monotonic(_read=time.clock_gettime, _clock=time.CLOCK_MONOTONIC) -> float:  # type: ignore[no-untyped-def]
    """Read the kernel's clock (seconds), which also runs if a test has frozen Python's clock."""
    return float(_read(_clock))


def sleep(seconds: float, _sleep=time.sleep) -> None:  # type: ignore[no-untyped-def]
    """Wait, even if a test has replaced Python's function by one that returns at once."""
    _sleep(seconds)


class Deadline:
    """When a test is late: it has time for many calls of its subject, and more while such calls go on returning.

    >>> deadline = Deadline(30.0)
    >>> deadline.after(0.0, calls=1, call_seconds=2.0)
    800.0
    >>> deadline = Deadline(30.0)
    >>> [deadline.after(now, calls, 0.01) for now, calls in ((14.0, 40), (29.0, 40), (31.0, 40))]
    [30.0, 30.0, 30.0]
    >>> deadline = Deadline(30.0)
    >>> [deadline.after(now, calls, 0.01) for now, calls in ((29.0, 40), (30.0, 40), (46.0, 50))]
    [30.0, 45.0, 60.0]
    """

    def __init__(self, seconds: float) -> None:
        self.given = self.seconds = seconds
        self.calls, self.called_at = 0, 0.0

    def after(self, now: float, calls: int, call_seconds: float) -> float:
        """Return the deadline, in seconds from the beginning.

        Args:
            now: the time since the beginning, in seconds.
            calls: how many calls have returned by now; it may count only some of them.
            call_seconds: how long a call takes.
        """
        self.seconds = max(self.seconds, CALLS * call_seconds)
        if calls > self.calls:
            self.calls, self.called_at = calls, now
        half = self.given / 2
        if now >= self.seconds and now - self.called_at < half and self.seconds < PATIENCE * self.given:
            self.seconds += half
        return self.seconds


def grace(broken_at: float, dead: bool) -> float:
    """Return how much longer the other ranks may take, once one has failed after some seconds, or is dead."""
    return GRACE_AFTER_DEATH if dead else min(GRACE, max(GRACE_LEAST, GRACE_TIMES * broken_at))


def pace(deadline: float, call_seconds: float) -> str:
    """Return how long a call takes and what to do about it, as the end of a sentence; nothing if calls are quick.

    >>> pace(30.0, 0.5), pace(30.0, 0.001)
    ('; one call takes 0.5 s: if it is slow and no more, give a smaller sample, or more time (--timeout)', '')
    """
    if CALLS * call_seconds < deadline / 2:
        return ""
    advice = "if it is slow and no more, give a smaller sample, or more time (--timeout)"
    return f"; one call takes {call_seconds:.2g} s: {advice}"


class RunningTime:
    """Count the seconds that ranks have had, for their deadlines.

    While they wait, that is the time that passes. While they compute, it is the processor time of the busiest one: on a
    busy machine they get little of it, and are slow without hanging. Time in which this process was stopped, or the
    machine asleep, does not count: a gap much longer than the wait counts as one tick.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.last = monotonic()
        self.taken: dict[int, float] = {}

    def read(self, pids: Iterable[int] = ()) -> float:
        """Return the seconds so far; call it at least once per tick.

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
        # One that waits for a processor is no more stuck than one that has it.
        computes = busiest > COMPUTES * gap or any(map(procfs.would_run, taken))
        self.seconds += min(busiest, gap) if computes else gap
        return self.seconds
