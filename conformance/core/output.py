"""Messages on stderr, and output that has been closed."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def why(error: OSError) -> str:
    """What went wrong with the output, in a few words.

    >>> why(BrokenPipeError(32, "Broken pipe"))
    'whoever read the output has closed it'
    """
    if isinstance(error, BrokenPipeError):
        return "whoever read the output has closed it"
    return f"the output cannot be written: {error.strerror or error}"


def let_go_of_output() -> None:
    """Discard what is still buffered, so that Python's flush at exit does not fail again."""
    _let_go(sys.stdout)


def _let_go(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def harmless(text: str) -> str:
    r"""A text without terminal control codes: part of it may come from a subject.

    >>> harmless("\x1b[31mred")
    '\\x1b[31mred'
    """
    return "".join(letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text)


def complain(text: str) -> None:
    """Print a line on stderr, where there is one."""
    try:
        print(f"conformance: {harmless(text)}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        _let_go(sys.stderr)
