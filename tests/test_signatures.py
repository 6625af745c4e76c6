"""Signatures are read, or refused in a line that shows a right one, and imply one another by what types mean."""

from __future__ import annotations

import pytest

from conformance.core.signatures import BadTypes, Signature, Type, candidates, parse, strongest


@pytest.mark.parametrize("text", ["V -> R", "V, R -> V, I", "P -> I, I, V", "I, I, I -> P"])
def test_a_signature_is_written_as_it_is_read(text):
    assert str(parse(text)) == text


def test_blanks_do_not_matter():
    assert parse(" V,R->I ") == Signature((Type.V, Type.R), (Type.I,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("V R", '"V R" has no arrow; a right one is "V, R -> V, I"'),
        ("V -> R -> I", '"V -> R -> I" has more than one arrow; a right one is "V, R -> V, I"'),
        ("-> R", '"-> R" names no argument; a right one is "V, R -> V, I"'),
        ("V -> ", '"V -> " names no result; a right one is "V, R -> V, I"'),
        ("S -> R", '"S -> R" has "S" for a type; the types are R, I, V and P; a right one is "V, R -> V, I"'),
        ("V, -> R", '"V, -> R" has nothing for a type; the types are R, I, V and P; a right one is "V, R -> V, I"'),
        ("v -> r", '"v -> r" has "v" for a type; the types are R, I, V and P; write "V -> R"'),
        ("V => R", '"V => R" has no arrow; write "V -> R"'),
        ("V \N{RIGHTWARDS ARROW} R", '"V \N{RIGHTWARDS ARROW} R" has no arrow; write "V -> R"'),
        (3, 'types are text such as "V, R -> V, I", not 3'),
    ],
)
def test_what_is_wrong_is_said_with_a_right_signature(text, words):
    with pytest.raises(BadTypes) as error:
        parse(text)
    assert str(error.value) == words


def test_one_type_stands_for_alike_results():
    assert str(parse("V -> R").fitted(1, 3)) == "V -> R, R, R"
    assert str(parse("V, R -> V, I").fitted(2, 2)) == "V, R -> V, I"


EACH = "write one letter for each tensor:"


@pytest.mark.parametrize(
    ("text", "arguments", "results", "words"),
    [
        ("V -> R", 2, 1, f'"V -> R" names 1 argument, but the call has 2; {EACH} "V, V -> R"'),
        ("V, R -> R", 1, 1, f'"V, R -> R" names 2 arguments, but the call has 1; {EACH} "V -> R"'),
        ("V -> R, I", 1, 3, f'"V -> R, I" names 2 results, but the call has 3; {EACH} "V -> R, I, V"'),
        ("V -> R", 0, 1, '"V -> R" names 1 argument, but the call has none'),
    ],
)
def test_a_signature_that_does_not_fit_the_call_is_refused(text, arguments, results, words):
    with pytest.raises(BadTypes) as error:
        parse(text).fitted(arguments, results)
    assert str(error.value) == words


def test_there_are_four_types_for_each_tensor():
    assert len(set(candidates(1, 1))) == 16
    assert len(set(candidates(2, 1))) == 64


IMPLIED = {
    "V -> R": {"V -> R", "R -> R", "V -> V", "R -> V", "V -> P", "R -> P"},
    "V -> I": {"V -> I", "R -> I"},
    "I -> R": {"I -> R", "I -> V", "I -> P"},
    "P -> I": {"P -> I", "V -> I", "R -> I"},
    "I -> P": {"I -> P"},
    "R -> R": {"R -> R", "R -> V", "R -> P"},
}


@pytest.mark.parametrize("text", IMPLIED)
def test_a_signature_implies_weaker_ones(text):
    assert {str(other) for other in candidates(1, 1) if parse(text).implies(other)} == IMPLIED[text]


def test_of_several_signatures_the_strongest_is_told():
    kept = [parse(text) for text in ("R -> R", "V -> P", "V -> R", "V -> V")]
    assert strongest(kept) == [parse("V -> R")]


def test_every_type_says_what_it_means():
    assert all(kind.meaning for kind in Type)
