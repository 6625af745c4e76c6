"""Lines on a terminal: wrapped, indented, and with nothing in them that a terminal or a log would obey."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console
from rich.text import Text

from conformance.core.output import shown

_LIMIT = 4_000  # characters of one text; the files of --report have more
_NAMES = 6
_NARROW = 20  # columns that a text gets at least


def terminal(file: IO[str] | None = None, width: int | None = None) -> Console:
    """Make a console without markup, emoji codes or guessed highlighting; with colours only if they are wanted."""
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


class Sheet:
    """Prints lines with an indent, wrapped to the width of its console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def blank(self) -> None:
        """Print an empty line."""
        self._console.print()

    def say(self, text: str, style: str = "", indent: int = 0, label: str = "") -> None:
        """Print a text of ours; a label stands before the first line, and the other lines are indented past it."""
        for line in self._wrapped(Text(shown(text, _LIMIT), style=style), indent + len(label)):
            self._print(Text.assemble(" " * indent, (label, "dim"), line))
            label = " " * len(label)

    def named(self, text: str, name: str, style: str = "", indent: int = 0) -> None:
        """Print words, then a name to be copied: unbroken, and on a line of its own if it does not fit."""
        *lines, last = self._wrapped(Text(shown(text, _LIMIT), style=style), indent)
        end = Text(shown(name, _LIMIT), style=style)
        fits = indent + last.cell_len + 1 + end.cell_len <= self._console.width
        for line in [*lines, last.append(" ").append(end)] if fits else [*lines, last, end]:
            self._print(Text.assemble(" " * indent, line))

    def quote(self, text: str, indent: int = 0) -> None:
        """Print a subject's words behind a bar, line by line, so that they cannot pass for ours."""
        for line in shown(text, _LIMIT).splitlines():
            for piece in self._wrapped(Text(line.expandtabs(4)), indent + 2):
                self._print(Text.assemble(" " * indent, ("| ", "dim"), piece))

    def command(self, label: str, text: str, indent: int = 0, style: str = "bold") -> None:
        """Print something to be copied: on one line, however long."""
        self._print(Text.assemble(" " * indent, (label, "dim"), (shown(text, _LIMIT), style)))

    def pair(self, first: Text, second: Text, indent: int) -> None:
        """Print two texts on one line if they fit, otherwise one below the other."""
        if first.cell_len + 2 + second.cell_len <= self._console.width:
            self._print(Text.assemble(first, "  ", second))
        else:
            self._print(first)
            if second:
                self._print(Text.assemble(" " * indent, second))

    def _wrapped(self, text: Text, margin: int) -> Iterable[Text]:
        for line in text.wrap(self._console, max(_NARROW, self._console.width - margin)) or [Text()]:
            line.rstrip()
            yield line

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)  # wrapped already: cut nothing, fill nothing


def listed(names: Iterable[str], most: int = _NAMES) -> str:
    """Join the first few names, and say how many more there are.

    >>> listed("abcdefgh")
    'a, b, c, d, e, f and 2 more'
    """
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
