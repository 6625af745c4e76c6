"""Adopt and end processes that a subject started and that outlived the forkserver."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

from conformance.ranks import procfs
from conformance.ranks.clock import monotonic, sleep

#: How long killed processes may take to end (seconds).
END_LIMIT = 3.0
#: Forkservers of this process that must not be killed; another thread may have one of its own.
FORKSERVERS: set[int] = set()
#: Those that rest between runs: processes adopted meanwhile are not theirs.
AT_REST: set[int] = set()
#: Held while a forkserver is started and registered, and while stray processes are killed.
STARTING = threading.Lock()


class Strays:
    """Adopt orphans while there is a forkserver.

    While the forkserver lives, it adopts them itself. So this process gets orphans only after the forkserver has died,
    and children that it had before are not among them.
    """

    def __init__(self) -> None:
        self.was_subreaper = procfs.is_subreaper()
        procfs.prctl(procfs.PR_SET_CHILD_SUBREAPER, 1)
        self.known: set[int] = set()
        self.note()

    def note(self) -> None:
        """Note the present children: they do not belong to a subject."""
        self.known = procfs.children(os.getpid())

    def sweep(self) -> None:
        """Kill every process that was adopted since, and its children."""
        limit = monotonic() + END_LIMIT
        while self._killed() and monotonic() < limit:
            sleep(0.005)

    def _killed(self) -> bool:
        """Kill adopted processes; return whether there were any."""
        with STARTING:
            adopted = self._adopted()
            for pid in adopted:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return bool(adopted)

    def _adopted(self) -> list[int]:
        own = os.getsid(0)
        found = procfs.children(os.getpid()) - self.known - FORKSERVERS
        return [pid for pid in found if _session(pid) != own]

    def close(self) -> None:
        """Stop adopting orphans, unless this process did so before."""
        if not self.was_subreaper and FORKSERVERS <= AT_REST:
            procfs.prctl(procfs.PR_SET_CHILD_SUBREAPER, 0)


def _session(pid: int) -> int:
    """Return the session of a process; every rank has one of its own. 0 if the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return 0
