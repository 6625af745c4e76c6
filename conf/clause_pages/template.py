"""The templates in ``conf/templates/site``, and the filters that they use."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from docutils import nodes
from markupsafe import Markup, escape
from sphinx.util.osutil import relative_uri

from clause_pages.suite import BROKEN, LEVELS, PARTIES, Clause, page_of

FOLDER = Path(__file__).parents[1] / "templates" / "site"
MARKS = {"pass": "✓", "not-applicable": "–", "skipped": "…", **dict.fromkeys(BROKEN, "✗")}  # noqa: RUF001


def render(template: str, docname: str, **context: Any) -> nodes.raw:
    """A template as the node that puts it on the page ``docname``."""

    def here(target: str) -> str:
        return link(docname, target)

    def clause_link(clause: Clause) -> str:
        return link(docname, page_of(clause))

    # A macro sees the globals of its module alone, so the links of this page have to be among them.
    page = environment().get_template(template, globals={"link": here, "clause_link": clause_link})
    return nodes.raw("", page.render(**context), format="html")


@cache
def environment() -> jinja2.Environment:
    """Where the templates are found, with everything escaped that is not markup already."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {one.__name__: one for one in (breakable, humps, plain, prose, plural, colour)}
    found.globals |= {"LEVELS": LEVELS, "PARTIES": PARTIES, "MARKS": MARKS}
    return found


def breakable(name: str) -> Markup:
    """A dotted name that a narrow place may break between its parts, and nowhere else.

    >>> breakable("Function.backward.any-layout")
    Markup('Function.<wbr>backward.<wbr>any-<wbr>layout')
    """
    return Markup(re.sub(r"(?<=\w[.:-])(?=\w)", "<wbr>", str(escape(name))))


def humps(name: str) -> Markup:
    """The name of a class, which a narrow column may also break where a word of it begins.

    >>> humps("_GatherFromRegion"), humps("all_gather")
    (Markup('_Gather<wbr>From<wbr>Region'), Markup('all_<wbr>gather'))
    """
    return Markup(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=\w[._])(?=\w)", "<wbr>", str(escape(name))))


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
    Markup('<code>x</code> on rank <em>r</em>')
    """
    found = re.sub(r"``(.+?)``", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"(?<![\w*])\*(\w+)\*(?![\w*])", r"<em>\1</em>", found))


def plain(text: str) -> str:
    """The same without any markup.

    >>> plain("``x < y`` on rank *r*")
    'x < y on rank r'
    """
    return str(prose(text).striptags())


def plural(number: int, word: str) -> str:
    """A number with its noun.

    >>> plural(1, "test"), plural(0, "test")
    ('1 test', 'no tests')
    """
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def colour(verdict: str) -> str:
    """The class that colours the verdict on a clause."""
    return "bad" if verdict in BROKEN else "good" if verdict == "pass" else "none"
