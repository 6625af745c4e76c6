"""The collectives that a rank enters, written where they outlive it."""

from __future__ import annotations

import contextlib
import os
import threading

#: So many collectives of a test are kept, and so much of each (characters).
KEPT = 256
LINE = 300


class Log:
    """Writes down each collective as it starts, a line each.

    The file is in memory and the controller has it too, so that a line outlives the process that wrote it and
    nobody is woken up for it. The controller empties the file before each request.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.owner = os.getpid()
        self.writing = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Begin a test."""
        self.count = self.end = 0

    def note(self, call: str) -> None:
        """Note one collective; beyond a number of them only the count goes on."""
        if os.getpid() != self.owner:
            return  # a process that the subject forked is no rank
        line = call[:LINE] + "\n"
        with self.writing, contextlib.suppress(OSError):
            self.count += 1
            if self.count <= KEPT:
                self.end += os.pwrite(self.file, line.encode(), self.end)


def read_log(file: int) -> list[str]:
    """What a :class:`Log` wrote, as far as a rank can be believed: it may have written anything."""
    text = os.pread(file, KEPT * 4 * LINE, 0).replace(b"\0", b"").decode("utf-8", "backslashreplace")
    return [line[:LINE] for line in text.splitlines()[:KEPT]]
