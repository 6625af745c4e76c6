"""Words for a reader: the text of a clause without the marks of the docstring it is written in; a word's article."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CODE = re.compile(r"``(?P<code>.+?)``|:\w+:`~?(?P<name>[^`]+)`")
_MARKED = re.compile(_CODE.pattern + r"|(?<![\w*])\*(?P<stressed>\w+)\*(?![\w*])")


def prose(text: str) -> str:
    """The text of a clause without the marks of its docstring.

    >>> prose("``x`` on rank *r*, see :func:`torch.vmap`")
    'x on rank r, see torch.vmap'
    """
    return _MARKED.sub(lambda found: found["code"] or found["name"] or found["stressed"], text)


def with_code(text: str) -> Iterator[tuple[str, bool]]:
    """The same in pieces, and whether each of them is code.

    >>> list(with_code("see ``x`` on rank *r*"))
    [('see ', False), ('x', True), (' on rank r', False)]
    """
    end = 0
    for found in _CODE.finditer(text):
        yield prose(text[end : found.start()]), False
        yield found["code"] or found["name"], True
        end = found.end()
    yield prose(text[end:]), False


def a(thing: object) -> str:
    """What kind of thing it is, with the article.

    >>> a(5), a([])
    ('an int', 'a list')
    """
    kind = type(thing).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
