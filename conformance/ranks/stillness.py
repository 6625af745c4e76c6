"""Detect processes that only wait for others, however busy the machine is."""

from __future__ import annotations

import os
from collections.abc import Sequence

from conformance.ranks import procfs
from conformance.ranks.clock import sleep

#: Processes that take next to no processor time for this long only wait (seconds).
LONG = 1.0
#: The same for ranks that wait for one which is dead, or has raised and gone: what they wait for cannot come any more.
LONG_CUT_OFF = 0.1
#: What a waiting process may take, as a share of the time: Gloo's thread wakes up a hundred times a second.
WAKING = 0.03
#: A thread that woke up for a moment sleeps again at one of the next looks (how many, and seconds between them).
LOOKS, APART = 10, 0.002


class Stillness:
    """Measure how long some processes have been idle, between calls of :meth:`of`."""

    def __init__(self) -> None:
        self.since = 0.0
        self.taken: dict[int, int] = {}

    def of(self, pids: Sequence[int], now: float, long: float = LONG) -> bool:
        """Tell whether all these processes have been idle that long; False if there are none, or no /proc."""
        if not procfs.is_there():
            return False
        taken = {pid: procfs.ticks(pid) for pid in pids}
        allowed = WAKING * (now - self.since) * os.sysconf("SC_CLK_TCK")
        rested = taken.keys() == self.taken.keys() and all(taken[pid] - self.taken[pid] <= allowed for pid in pids)
        is_long = now - self.since > long
        if not pids or not rested or (is_long and any(map(_wants_a_processor, pids))):
            self.since, self.taken = now, taken
            return False
        return is_long


def _wants_a_processor(pid: int) -> bool:
    """Tell whether a process runs or would run at each of a few looks: on a busy machine it may get no processor."""
    for look in range(LOOKS):
        if look:
            sleep(APART)
        if not procfs.would_run(pid):
            return False
    return True
