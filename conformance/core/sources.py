"""Read where a clause comes from: its ``:sources:`` option.

The option lists, separated by commas:

- letters of documents and the words that say it: ``K T "must accept a context"``; a module names its documents in
  ``DOCUMENTS``, by letters other than C and X, each with its title and its address (empty if none lasts);
- a page of PyTorch, with its words or without: ``X Extending PyTorch "NEVER to modify"``;
- upstream's own code: ``C torchlogix 0.1.1 functional.py:165-167``;
- ``ours``, for what no document says but careful users rely on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

_DOCS = "https://docs.pytorch.org/docs/stable/"
PAGES = {
    "Automatic differentiation package": f"{_DOCS}autograd.html",
    "Automatic mixed precision examples": f"{_DOCS}notes/amp_examples.html",
    "Autograd mechanics": f"{_DOCS}notes/autograd.html",
    "CUDA semantics": f"{_DOCS}notes/cuda.html",
    "Extending PyTorch": f"{_DOCS}notes/extending.html",
    "Extending torch.func": f"{_DOCS}notes/extending.func.html",
    "Forward-mode automatic differentiation": "https://docs.pytorch.org/tutorials/intermediate/forward_ad_usage.html",
    "Local SPMD types": "https://pypi.org/project/spmd-types/",
    "torch.autograd.Function": f"{_DOCS}autograd.html#torch.autograd.Function",
    "torch.compile": f"{_DOCS}generated/torch.compile.html",
    "torch.distributed": f"{_DOCS}distributed.html",
    "torch.utils.checkpoint": f"{_DOCS}checkpoint.html",
    "torch.vmap": f"{_DOCS}generated/torch.vmap.html",
}
"""The pages of PyTorch that a clause may name, and their addresses."""

PAGE, CODE, OURS = "X", "C", "ours"
#: Title and public address of each document, by its letter.
Documents = Mapping[str, tuple[str, str]]

_WORDS = r'"(?P<words>[^"]+)"'
_FORMS = {
    "documents": re.compile(rf"(?P<letters>[ABD-WYZ]( [ABD-WYZ])*) {_WORDS}"),
    "page": re.compile(rf'X (?P<page>[^",]+?)( {_WORDS})?'),
    "code": re.compile(r"C (?P<code>\S+ \d[\w.+-]* \S+\.\w+:\d+(-\d+)?)"),
    "ours": re.compile(r"ours"),
}
_ENTRY = re.compile(r'(?:[^",]|"[^"]*")+')


class SourceError(ValueError):
    """A ``:sources:`` option that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True)
class Source:
    """One source of a clause.

    Attributes:
        kind: the letter of a document, ``X`` for a page of PyTorch, ``C`` for upstream's code, or ``ours``.
        words: the words there that say it; empty for code, and for a page that says it at length.
        place: the name of the page, or package, version and lines of the code.
        title: a title for readers.
        url: its address, if known.
    """

    kind: str
    words: str = ""
    place: str = ""
    title: str = field(default="", compare=False)
    url: str = field(default="", compare=False)


def parse(text: str, documents: Documents) -> tuple[Source, ...]:
    """Read a ``:sources:`` option.

    Args:
        text: of the option.
        documents: title and address of each document, by its letter.

    Raises:
        SourceError: something in it has none of the four forms, names an unknown page or document, or is repeated.
    """
    found = [source for entry in _entries(text) for source in _read(entry, documents)]
    if len(set(found)) < len(found):
        raise SourceError("a source is named twice")
    return tuple(found)


def by_words(sources: Iterable[Source]) -> Iterator[tuple[str, list[Source]]]:
    """Group the sources that say it in the same words."""
    for words, alike in groupby(sources, lambda source: source.words):
        yield words, list(alike)


def _entries(text: str) -> list[str]:
    entries = [entry.strip() for entry in _ENTRY.findall(text)]
    if text.count('"') % 2:
        raise SourceError(f"a quotation mark is left open: {text}")
    return [entry for entry in entries if entry]


def _read(entry: str, documents: Documents) -> list[Source]:
    if found := _FORMS["documents"].fullmatch(entry):
        letters = found["letters"].split()
        if unknown := set(letters) - set(documents):
            known = ", ".join(documents) or "none"
            raise SourceError(f"{entry!r} is no source: DOCUMENTS has no {min(unknown)}, there are {known}")
        return [Source(letter, found["words"], "", *documents[letter]) for letter in letters]
    if found := _FORMS["page"].fullmatch(entry):
        page = found["page"]
        if page not in PAGES:
            raise SourceError(f"{page!r} is not one of the pages: {', '.join(PAGES)}")
        return [Source(PAGE, found["words"] or "", page, f"PyTorch: {page}", PAGES[page])]
    if found := _FORMS["code"].fullmatch(entry):
        return [Source(CODE, place=found["code"], title=f"code: {found['code']}")]
    if _FORMS["ours"].fullmatch(entry):
        return [Source(OURS, title="ours: a careful user's need")]
    raise SourceError(
        f'{entry!r} is no source: write K "the words", X Page "the words", C package version file.py:1-9, or ours'
    )
