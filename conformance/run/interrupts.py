"""Handle interrupts: the first ends a run with a report, the second at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from conformance.core.errors import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOW_CURSOR = b"\x1b[?25h"


class Interrupted(KeyboardInterrupt):
    """The first interrupt.

    If a plain KeyboardInterrupt leaves an ``exec``, as some modules run while they are imported, CPython ends the
    process with status 130, whatever it returns.
    """


class Interrupts:
    """Count interrupts: the first ends the run with a report of what has run, the second ends it at once."""

    def __init__(self) -> None:
        self.count = 0
        self.finishing = False  # the run has ended, and its report is being written

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Called for SIGINT, SIGTERM and SIGHUP."""
        if number == signal.SIGHUP and self.count:
            return  # a closed terminal may send SIGHUP twice
        self.count += 1
        if self.count == 1 and self.finishing:
            return
        if self.count == 1:
            raise Interrupted
        # The forkserver sees our end of its connection close, and ends every rank.
        with contextlib.suppress(OSError):
            if os.isatty(2):
                os.write(2, SHOW_CURSOR)
            os.write(2, b"conformance: interrupted twice; no report was written after the second time\n")
        os._exit(INTERRUPTED)


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Handle the signals that end a run, except those that are ignored, as under ``nohup``."""
    interrupts = Interrupts()
    earlier = {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                earlier[number] = signal.signal(number, interrupts)
    try:
        yield interrupts
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
