"""Small pieces of HTML, escaped."""

from __future__ import annotations

import re
from html import escape

from docutils import nodes
from sphinx.util.osutil import relative_uri


class Markup(str):
    """Text that is HTML already."""


def tag(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """One element. ``class_`` and ``for_`` lose their underscore, other underscores become hyphens.

    >>> tag("a", "x < y", href="#z", class_="id")
    '<a href="#z" class="id">x &lt; y</a>'
    """
    words = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name_of_it = key.rstrip("_").replace("_", "-")
        words.append(name_of_it if value is True else f'{name_of_it}="{escape(str(value))}"')
    inside = "".join(child if isinstance(child, Markup) else escape(child) for child in children)
    head = " ".join([name, *words])
    return Markup(f"<{head}>" if name in {"input", "br"} else f"<{head}>{inside}</{name}>")


def together(*parts: str) -> Markup:
    """Parts one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def breakable(name: str) -> Markup:
    """A dotted name that a narrow place may break between its parts, and nowhere else.

    >>> breakable("Function.backward.any-layout")
    'Function.<wbr>backward.<wbr>any-<wbr>layout'
    """
    return Markup(re.sub(r"(?<=\w[.:-])(?=\w)", "<wbr>", escape(name)))


def raw(markup: str) -> nodes.raw:
    """The node that puts HTML on a page."""
    return nodes.raw("", str(markup), format="html")


def link(docname: str, target: str) -> str:
    """From one page of the site to an address counted from its root.

    >>> link("api/spec_impl/ksuit/index", "results.html#x")
    '../../../results.html#x'
    """
    page, hash_, anchor = target.partition("#")
    return relative_uri(f"{docname}.html", page) + hash_ + anchor


def prose(text: str) -> Markup:
    """The text of a clause, whose markup is that of docstrings.

    >>> prose("``x`` on rank *r*")
    '<code>x</code> on rank <em>r</em>'
    """
    found = re.sub(r"``(.+?)``", r"<code>\1</code>", escape(text, quote=False))
    return Markup(re.sub(r"(?<![\w*])\*(\w+)\*(?![\w*])", r"<em>\1</em>", found))


def plain(text: str) -> str:
    """The same without any markup.

    >>> plain("``x`` on rank *r*")
    'x on rank r'
    """
    return re.sub(r"<[^>]+>", "", prose(text)).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
