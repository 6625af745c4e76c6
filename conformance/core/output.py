"""Print: every text from a file or a subject goes through here, on its way to a terminal or a log.

A terminal obeys control codes. The log of a CI server obeys some lines, too: GitHub takes ``::`` at the start of
one for a command, and Azure ``##vso[`` anywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import unicodedata
from typing import IO, Any, TextIO

from conformance.core.prose import TEXT_LIMIT, clipped

#: Variables of CI servers whose logs obey certain lines as commands.
_LOGS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
_OBEYED = re.compile(r"(^|\s):(?=:)|##(?=\w*\[)")
_KEPT = "\n\t\u200d"  # a zero-width joiner builds emoji and harms nobody


def visible(text: str, limit: int = TEXT_LIMIT) -> str:
    r"""Clip a text, and escape its invisible characters.

    >>> visible("\x1b[31mred\x00")
    '\\x1b[31mred\\x00'
    >>> visible("caf\u00e9 \ud800")
    'café \\ud800'
    """
    text = clipped(text, limit).replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escaped, text))


def in_a_line(text: str, limit: int = 200) -> str:
    r"""Return a name for a report: on one line, shortened if long, invisible characters and line ends escaped.

    >>> in_a_line("a\n::error::b"), in_a_line("abcdefgh", 4)
    ('a\\n::error::b', 'ab…gh')
    """
    half = limit // 2
    short = text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"
    return visible(short).replace("\n", "\\n").replace("\t", "\\t")


def shown(text: str, limit: int = TEXT_LIMIT) -> str:
    """Make a text visible, and break up what the log of a CI server would obey as a command."""
    text = visible(text, limit)
    return _OBEYED.sub(r"\g<0> ", text) if any(map(os.environ.get, _LOGS)) else text


def say(text: str, file: IO[str] | None = None) -> None:
    """Print a text on stdout or another stream, so that no log obeys anything in it."""
    print(shown(text), file=file or sys.stdout, flush=True)


def say_data(data: Any, file: IO[str] | None = None) -> None:
    """Print JSON: no line begins with what a log obeys, and signs that are obeyed anywhere are escaped."""
    print(json.dumps(data, indent=1).replace("##", "#\\u0023"), file=file or sys.stdout)


def complain(text: str) -> None:
    """Print a line on stderr, if there is one."""
    try:
        say(f"conformance: {text}", sys.stderr)
    except (OSError, ValueError, AttributeError):
        discard(sys.stderr)


def why_unwritable(error: OSError) -> str:
    """Say in a few words what went wrong with the output.

    >>> why_unwritable(BrokenPipeError(32, "Broken pipe"))
    'the reader of the output has closed it'
    """
    if isinstance(error, BrokenPipeError):
        return "the reader of the output has closed it"
    return f"the output cannot be written: {error.strerror or error}"


def discard(stream: TextIO) -> None:
    """Discard what a stream still buffers, so that Python's flush at exit does not fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _escaped(character: str) -> str:
    if character.isprintable() or character in _KEPT or unicodedata.category(character) == "Zs":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
