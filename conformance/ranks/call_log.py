"""The collectives that a rank enters, written where they outlive it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence

from conformance.core.disagreement import EXCHANGES, POINT_TO_POINT
from conformance.core.outcomes import AMONG, RankOutcome

#: Collectives to which ranks bring tensors of different shapes, or of which only the root has a list.
UNEVEN = ("scatter(", "gather(", *EXCHANGES)
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


def matching(outcomes: Sequence[RankOutcome]) -> bool:
    """Whether all ranks of each group issued the same collectives, and there is a receive for each send.

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
    """Whether every rank of a group, all of them where it has no name, issued the same."""
    ranks = group.split(",") if group else map(str, range(size))
    return len({tuple(calls.get(int(rank), ())) for rank in ranks if rank.isdigit()}) == 1
