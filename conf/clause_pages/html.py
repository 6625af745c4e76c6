"""Small pieces of HTML, escaped."""

from __future__ import annotations

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
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{escape(str(value))}"')
    inside = "".join(child if isinstance(child, Markup) else escape(child) for child in children)
    head = " ".join([name, *words])
    return Markup(f"<{head}>" if name in {"input", "br"} else f"<{head}>{inside}</{name}>")


def together(*parts: str) -> Markup:
    """Parts one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


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
