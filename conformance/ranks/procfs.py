"""Read about processes in Linux's /proc; on other systems the functions find nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37


def prctl(option: int, value: int) -> None:
    """Call Linux's prctl; do nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def is_subreaper() -> bool:
    """Tell whether orphans among this process's descendants become its children."""
    answer = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def is_there() -> bool:
    """Tell whether this system has /proc."""
    return os.path.exists("/proc/self/stat")


def state(pid: int) -> bytes:
    """Return the state letter of ``ps``, such as ``T`` for a stopped process; empty if there is no such process.

    >>> state(os.getpid())
    b'R'
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2][:1]
    return b""


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended, and is there for its exit status alone.

    >>> has_ended(os.getpid())
    False
    """
    return state(pid) in {b"Z", b"X"}


def ticks(pid: int) -> int:
    """Return the processor time of a process and of all that it started, in clock ticks; 0 if there is none.

    >>> ticks(os.getpid()) > 0
    True
    """
    spent = 0
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        spent = sum(map(int, file.read().rpartition(b") ")[2].split()[11:15]))  # with children that have ended
    return spent + sum(map(ticks, children(pid)))


def processor_seconds(pid: int) -> float:
    """Return the same in seconds.

    >>> processor_seconds(os.getpid()) > 0
    True
    """
    return ticks(pid) / os.sysconf("SC_CLK_TCK")


def would_run(pid: int) -> bool:
    """Tell whether any thread of a process, or of one that it started, runs, or waits for a processor or a disk.

    >>> would_run(os.getpid())
    True
    """
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
                if file.read().rpartition(b") ")[2][:1] in b"RD":
                    return True
    return any(map(would_run, children(pid)))


def children(pid: int) -> set[int]:
    """Return the processes that a process has started or adopted."""
    found: list[bytes] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += file.read().split()
    return set(map(int, found))
