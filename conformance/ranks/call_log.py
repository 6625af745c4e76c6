"""Log the collectives that a rank enters, in memory that outlives the rank."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence

from conformance.core.disagreement import EXCHANGES, POINT_TO_POINT
from conformance.core.outcomes import AMONG, RankOutcome

#: Collectives to which ranks bring tensors of different shapes, or of which only the root has a list.
UNEVEN = ("scatter(", "gather(", *EXCHANGES)
#: How many collectives of a test are kept, and how much of each (characters).
KEPT = 256
LINE = 300


class Log:
    """Log each collective as it starts, one line each.

    The file is in memory and shared with the controller, so a line outlives the process that wrote it, and writing it
    wakes no other process. The controller empties the file before each request.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.owner = os.getpid()
        self.writing = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Begin a test."""
        self.count = self.end = 0

    def note(self, line: Callable[[], str]) -> None:
        """Log one collective, one of the first ones."""
        if self.count >= KEPT or os.getpid() != self.owner:
            return  # a process that the subject forked is not a rank
        text = line()[:LINE] + "\n"
        with self.writing, contextlib.suppress(OSError):
            self.count += 1
            if self.count <= KEPT:
                self.end += os.pwrite(self.file, text.encode(), self.end)


def read_log(file: int) -> list[str]:
    """Read what a :class:`Log` wrote; a subject may have written anything there, so nothing is assumed of it."""
    text = os.pread(file, KEPT * 4 * LINE, 0).replace(b"\0", b"").decode("utf-8", "backslashreplace")
    return [line[:LINE] for line in text.splitlines()[:KEPT]]


def matching(outcomes: Sequence[RankOutcome]) -> bool:
    """Tell whether all ranks of each group issued the same collectives, and each send has a receive.

    >>> calls = [("barrier()", "send(2 float32)"), ("barrier()",)]
    >>> matching([RankOutcome(rank, "pass", collectives=own) for rank, own in enumerate(calls)])
    False
    >>> calls = ["all_to_all_single(2 float32, 3 float32)", "all_to_all_single(4 float32, 3 float32)"]
    >>> matching([RankOutcome(rank, "pass", collectives=(call,)) for rank, call in enumerate(calls)])
    True
    """
    groups: dict[str, dict[int, list[str]]] = {}
    sent = 0
    for outcome in outcomes:
        for call in outcome.collectives:
            name = call.partition("(")[0]
            if name in POINT_TO_POINT:
                sent += 1 if name == "send" else -1
            else:
                _, _, group = call.partition(AMONG)
                said = name if call.startswith(UNEVEN) else call
                groups.setdefault(group, {}).setdefault(outcome.rank, []).append(said)
    return not sent and all(_same(calls, group, len(outcomes)) for group, calls in groups.items())


def _same(calls: dict[int, list[str]], group: str, size: int) -> bool:
    """Tell whether every rank of a group issued the same collectives; without a name, every rank of the world."""
    ranks = group.split(",") if group else map(str, range(size))
    return len({tuple(calls.get(int(rank), ())) for rank in ranks if rank.isdigit()}) == 1


def file_in_memory(name: str) -> int:
    """Open a file in memory; return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
