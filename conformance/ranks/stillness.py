"""Detect processes that only wait for others, however busy the machine is."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.ranks import procfs

#: Processes without processor time for this long only wait (seconds).
LONG = 1.0
#: The same for ranks whose peer is dead: its connections are closed, so a waiting rank wakes up at once.
LONG_AFTER_DEATH = 0.1


class Stillness:
    """Measure how long some processes have been idle, between calls of :meth:`of`."""

    def __init__(self, long: float = LONG) -> None:
        self.long = long
        self.since = 0.0
        self.taken: list[int] = []

    def of(self, pids: Sequence[int], now: float) -> bool:
        """Tell whether all these processes have been idle for a while; False if there are none, or no /proc."""
        if not procfs.is_there():
            return False
        taken = [procfs.ticks(pid) for pid in pids]
        # On a busy machine a runnable process may get no processor for a while.
        if not pids or taken != self.taken or any(map(procfs.would_run, pids)):
            self.since, self.taken = now, taken
            return False
        return now - self.since > self.long
