"""Time as it passes for this process."""

from __future__ import annotations

import time

#: How often a wait looks at the clock (seconds).
TICK = 0.5


class RunningTime:
    """Seconds for which this process has run.

    Time in which it was stopped, or the machine asleep, is not a rank's: a gap much longer than what was waited for
    counts as a tick.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.last = time.monotonic()

    def read(self) -> float:
        """The seconds so far; asked for at least once a tick."""
        now = time.monotonic()
        gap, self.last = now - self.last, now
        self.seconds += gap if gap < 3 * TICK else TICK
        return self.seconds
