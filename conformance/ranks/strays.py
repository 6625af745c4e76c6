"""Processes that a subject started and that outlived the forkserver: the controller adopts them and ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

from conformance.ranks import procfs
from conformance.ranks.clock import monotonic, sleep

#: How long processes may take to be gone once they are killed (seconds).
END_LIMIT = 3.0
#: Forkservers of this process that are to live; another thread may have one of its own.
FORKSERVERS: set[int] = set()
#: Those of them that wait for another run: what falls to this process meanwhile is none of theirs.
AT_REST: set[int] = set()
#: Held from when a forkserver is started until it stands there, and while processes are looked for and killed.
STARTING = threading.Lock()


class Strays:
    """Adopts orphans for as long as there is a forkserver.

    While the forkserver lives, it adopts them itself. So whatever falls to this process appears once the forkserver
    is dead, and none of the children that were there before is one of them.
    """

    def __init__(self) -> None:
        self.was_subreaper = procfs.is_subreaper()
        procfs.prctl(procfs.PR_SET_CHILD_SUBREAPER, 1)
        self.known: set[int] = set()
        self.note()

    def note(self) -> None:
        """Take note of the children there are: they are not a subject's."""
        self.known = procfs.children(os.getpid())

    def sweep(self) -> None:
        """Kill every process that was adopted since, and what it leaves in turn."""
        limit = monotonic() + END_LIMIT
        while self._killed() and monotonic() < limit:
            sleep(0.005)

    def _killed(self) -> bool:
        """Kill those that are there; whether there were any."""
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
        """Adopt nobody any more, unless this process did before."""
        if not self.was_subreaper and FORKSERVERS <= AT_REST:
            procfs.prctl(procfs.PR_SET_CHILD_SUBREAPER, 0)


def _session(pid: int) -> int:
    """The session of a process; every rank has one of its own. 0 once the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return 0
