"""Where a clause comes from, as its ``:sources:`` option says.

The option lists, separated by commas:

- letters of documents and the words that say it: ``K T "must accept a context"``;
- a page of PyTorch, with its words or without: ``X Extending PyTorch "NEVER to modify"``;
- upstream's own code: ``C torchlogix 0.1.1 functional.py:165-167``;
- ``ours``, for what no document says and a careful user relies on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

DOCUMENTS = {
    "K": ("ksuit: AllGatherGradAutograd", ""),
    "T": ("towhee: AllGather", ""),
    "L": ("torchlogix: GradFactor", ""),
    "M": (
        "Megatron-LM: MakeViewlessTensor",
        "https://epfllm.github.io/Megatron-LLM/api/megatron/core/megatron.core.utils.MakeViewlessTensor.html",
    ),
    "N": (
        "torch: NestedIOFunction",
        "https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.NestedIOFunction.html",
    ),
}
"""Title and public address of each document; the address is empty where none is known to last."""

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

_WORDS = r'"(?P<words>[^"]+)"'
_FORMS = {
    "documents": re.compile(rf"(?P<letters>[{''.join(DOCUMENTS)}]( [{''.join(DOCUMENTS)}])*) {_WORDS}"),
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
    """

    kind: str
    words: str = ""
    place: str = ""

    @property
    def title(self) -> str:
        """A title for readers."""
        if self.kind in DOCUMENTS:
            return DOCUMENTS[self.kind][0]
        return {PAGE: f"PyTorch: {self.place}", CODE: f"code: {self.place}"}.get(
            self.kind, "ours: a careful user's need"
        )

    @property
    def url(self) -> str:
        """Its address, if known."""
        return DOCUMENTS[self.kind][1] if self.kind in DOCUMENTS else PAGES.get(self.place, "")


def parse(text: str) -> tuple[Source, ...]:
    """Read a ``:sources:`` option.

    Raises:
        SourceError: something in it is none of the four forms, names an unknown page, or is said twice.
    """
    found = [source for entry in _entries(text) for source in _read(entry)]
    if len(set(found)) < len(found):
        raise SourceError("a source is named twice")
    return tuple(found)


def by_words(sources: Iterable[Source]) -> Iterator[tuple[str, list[Source]]]:
    """The sources that say it in the same words, together."""
    for words, alike in groupby(sources, lambda source: source.words):
        yield words, list(alike)


def _entries(text: str) -> list[str]:
    entries = [entry.strip() for entry in _ENTRY.findall(text)]
    if text.count('"') % 2:
        raise SourceError(f"a quotation mark is left open: {text}")
    return [entry for entry in entries if entry]


def _read(entry: str) -> list[Source]:
    if found := _FORMS["documents"].fullmatch(entry):
        return [Source(letter, found["words"]) for letter in found["letters"].split()]
    if found := _FORMS["page"].fullmatch(entry):
        if found["page"] not in PAGES:
            raise SourceError(f"{found['page']!r} is not one of the pages: {', '.join(PAGES)}")
        return [Source(PAGE, found["words"] or "", found["page"])]
    if found := _FORMS["code"].fullmatch(entry):
        return [Source(CODE, place=found["code"])]
    if _FORMS["ours"].fullmatch(entry):
        return [Source(OURS)]
    raise SourceError(
        f'{entry!r} is no source: write K "the words", X Page "the words", C package version file.py:1-9, or ours'
    )
