"""Words for a reader: a clause's text without its marks, a long text clipped, a number with its noun, an article."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Longest text that a rank may hand over in one field; a subject may print or raise megabytes.
TEXT_LIMIT = 20_000

_CODE = re.compile(r"``(?P<code>.+?)``|:\w+:`~?(?P<name>[^`]+)`")
_MARKED = re.compile(_CODE.pattern + r"|(?<![\w*])\*(?P<stressed>\w+)\*(?![\w*])")


def prose(text: str) -> str:
    """Return the text of a clause without the marks of its docstring.

    >>> prose("``x`` on rank *r*, see :func:`torch.vmap`")
    'x on rank r, see torch.vmap'
    """
    return _MARKED.sub(lambda found: found["code"] or found["name"] or found["stressed"], text)


def with_code(text: str) -> Iterator[tuple[str, bool]]:
    """Split such a text into pieces, each with whether it is code.

    >>> list(with_code("see ``x`` on rank *r*"))
    [('see ', False), ('x', True), (' on rank r', False)]
    """
    end = 0
    for found in _CODE.finditer(text):
        yield prose(text[end : found.start()]), False
        yield found["code"] or found["name"], True
        end = found.end()
    yield prose(text[end:]), False


def clipped(text: str, limit: int = TEXT_LIMIT) -> str:
    r"""Shorten a text in its middle, so that both its start and its end stay readable.

    >>> clipped("abcdefgh", 4)
    'ab\n... 4 characters left out ...\ngh'
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless it is one.

    >>> counted(1, "clause"), counted(2, "more clause")
    ('1 clause', '2 more clauses')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def with_article(thing: object) -> str:
    """Name the type of a value, with its article.

    >>> with_article(5), with_article([])
    ('an int', 'a list')
    """
    kind = type(thing).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
