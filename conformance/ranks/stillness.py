"""Whether processes do nothing: they wait for others, however busy the machine is."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.ranks import procfs

#: Processes that take no processor time for so long only wait (seconds).
LONG = 1.0
#: The same for ranks whose peer is dead: its connections are closed, and who waits for it wakes up at once.
LONG_AFTER_DEATH = 0.1


class Stillness:
    """How long some processes have done nothing, as far as it was looked at."""

    def __init__(self, long: float = LONG) -> None:
        self.long = long
        self.since = 0.0
        self.taken: list[int] = []

    def of(self, pids: Sequence[int], now: float) -> bool:
        """Whether none of these processes has done anything for a while; False where none is there, or nobody knows."""
        if not procfs.is_there():
            return False
        taken = [procfs.ticks(pid) for pid in pids]
        # On a busy machine a process may get no time for a while, and would take it.
        if not pids or taken != self.taken or any(map(procfs.would_run, pids)):
            self.since, self.taken = now, taken
            return False
        return now - self.since > self.long
