"""How a run ends before its time: interrupts, and an output that nobody reads any more."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TextIO

INTERRUPTED = 2
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOW_CURSOR = b"\x1b[?25h"


class Interrupts:
    """The first interrupt lets the run end with a report of what there is; the second ends it at once."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Called for SIGINT, SIGTERM and SIGHUP."""
        if number == signal.SIGHUP and self.count:
            return  # a terminal that goes away may say so twice
        self.count += 1
        if self.count == 1:
            raise KeyboardInterrupt
        # The pristine process sees our end of its connection close, and ends every rank.
        with contextlib.suppress(OSError):
            if os.isatty(2):
                os.write(2, SHOW_CURSOR)
            os.write(2, b"conformance: interrupted twice; no report was written after the second time\n")
        os._exit(INTERRUPTED)


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Take over the signals that end a run, those aside that the user has switched off, as ``nohup`` does."""
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


def why(error: OSError) -> str:
    """What went wrong with the output, in a few words.

    >>> why(BrokenPipeError(32, "Broken pipe"))
    'whoever read the output has closed it'
    """
    if isinstance(error, BrokenPipeError):
        return "whoever read the output has closed it"
    return f"the output cannot be written: {error.strerror or error}"


def let_go_of_output() -> None:
    """Send what is still to be printed nowhere, so that Python's flush at its end does not complain again."""
    _let_go(sys.stdout)


def _let_go(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def complain(text: str) -> None:
    """Print a line on stderr, where there is one."""
    try:
        print(f"conformance: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        _let_go(sys.stderr)
