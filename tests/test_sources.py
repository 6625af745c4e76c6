"""The sources of a clause: how they are written, what is refused, and how they are shown."""

from __future__ import annotations

import pytest

from conformance.core.clauses import registry
from conformance.core.sources import PAGES, Source, SourceError, by_words
from conformance.core.sources import parse as parse_with

DOCUMENTS = {letter: (f"title of {letter}", f"https://{letter}") for letter in "KTL"}


def parse(text):
    return parse_with(text, DOCUMENTS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('K "a, b"', [Source("K", "a, b")]),
        ('K T "a", L "b"', [Source("K", "a"), Source("T", "a"), Source("L", "b")]),
        ("X Extending PyTorch", [Source("X", "", "Extending PyTorch")]),
        ('X Extending PyTorch "a"', [Source("X", "a", "Extending PyTorch")]),
        ("C torch 2.13.0 torch/a.py:1-9", [Source("C", "", "torch 2.13.0 torch/a.py:1-9")]),
        (
            "C towhee.models 1.1.3 towhee/a.py:92, ours",
            [Source("C", "", "towhee.models 1.1.3 towhee/a.py:92"), Source("ours")],
        ),
        ("", []),
    ],
)
def test_sources_are_read(text, expected):
    assert parse(text) == tuple(expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("K", "no source"),
        ('Q "a"', "DOCUMENTS has no Q, there are K, T, L"),
        ('KT "a"', "no source"),
        ('K ""', "no source"),
        ("C torch torch/a.py:1", "no source"),
        ("C torch 2.13.0 torch/a.py", "no source"),
        ("mine", "no source"),
        ("X Extending JAX", "not one of the pages"),
        ('K "a", K "a"', "twice"),
        ("ours, ours", "twice"),
        ('K "a', "left open"),
    ],
)
def test_what_is_no_source_is_refused(text, problem):
    with pytest.raises(SourceError, match=problem):
        parse(text)


def test_sources_with_the_same_words_stand_together():
    groups = [(words, [source.kind for source in alike]) for words, alike in by_words(parse('K T "a", L "b", ours'))]
    assert groups == [("a", ["K", "T"]), ("b", ["L"]), ("", ["ours"])]


def test_a_source_knows_where_it_can_be_read():
    found = parse('T "a", X Extending PyTorch, C torch 2.13.0 torch/a.py:1, ours')
    assert [source.url for source in found] == ["https://T", PAGES["Extending PyTorch"], "", ""]
    assert found[0].title == "title of T"


def test_the_words_of_a_document_are_few():
    sources = [source for clause in registry().values() for source in clause.sources if source.words]
    assert [source for source in sources if len(source.words.split()) > 9] == []
