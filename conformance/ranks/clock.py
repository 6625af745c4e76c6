"""Time as it passes for this process."""

from __future__ import annotations

import time

#: How often a wait looks at the clock (seconds).
TICK = 0.5


def monotonic(_read=time.clock_gettime, _clock=time.CLOCK_MONOTONIC) -> float:  # type: ignore[no-untyped-def]
    """Seconds on the kernel's clock, which goes on where a test has made that of Python stand still."""
    return float(_read(_clock))


def sleep(seconds: float, _sleep=time.sleep) -> None:  # type: ignore[no-untyped-def]
    """Wait, where a test has had Python's function return at once."""
    _sleep(seconds)


class RunningTime:
    """Seconds for which this process has run.

    Time in which it was stopped, or the machine asleep, is not a rank's: a gap much longer than what was waited for
    counts as a tick.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.last = monotonic()

    def read(self) -> float:
        """The seconds so far; asked for at least once a tick."""
        last, self.last = self.last, monotonic()
        gap = self.last - last
        self.seconds += gap if gap < 3 * TICK else TICK
        return self.seconds
