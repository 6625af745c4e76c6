"""Messages on stderr, and output that has been closed."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def why_unwritable(error: OSError) -> str:
    """What went wrong with the output, in a few words.

    >>> why_unwritable(BrokenPipeError(32, "Broken pipe"))
    'whoever read the output has closed it'
    """
    if isinstance(error, BrokenPipeError):
        return "whoever read the output has closed it"
    return f"the output cannot be written: {error.strerror or error}"


def discard(stream: TextIO) -> None:
    """Discard what a stream still buffers, so that Python's flush at exit does not fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def without_control_codes(text: str) -> str:
    r"""A text without terminal control codes: part of it may come from a subject.

    >>> without_control_codes("\x1b[31mred")
    '\\x1b[31mred'
    """
    return "".join(letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text)


def complain(text: str) -> None:
    """Print a line on stderr, where there is one."""
    try:
        print(f"conformance: {without_control_codes(text)}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        discard(sys.stderr)
