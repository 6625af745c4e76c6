"""What got worse between two reports."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.core.outcomes import OUTCOMES
from conformance.report.compare import compare, show
from conformance.report.terminal import terminal
from tests.made_up import GATHER, SUBJECT, made, outcome, subject_ref

SUM = f"{GATHER}.backward.sum"


def said(comparison, width=100):
    file = io.StringIO()
    show(comparison, terminal(file, width=width))
    return file.getvalue()


def test_a_report_is_no_worse_than_itself():
    comparison = compare(made(outcome(SUM, "fail")), made(outcome(SUM, "fail")))
    assert not comparison.worse
    assert comparison.to_json() == {"verdicts": [], "clauses": [], "differences": [], "worse": False}
    assert said(comparison) == "No verdict changed.\n"


@pytest.mark.parametrize(
    ("old", "new", "effect"),
    [
        ("pass", "fail", "worse"),
        ("pass", "skip", "worse"),
        ("skip", "fail", "worse"),
        ("fail", "crash", "worse"),
        ("not-applicable", "fail", "worse"),
        ("fail", "pass", "better"),
        ("timeout", "fail", "better"),
        ("skip", "pass", "better"),
        ("pass", "not-applicable", "changed"),
    ],
)
def test_a_clause_gets_worse_or_better_or_only_changes(old, new, effect):
    comparison = compare(made(outcome(SUM, old)), made(outcome(SUM, new, message="words")))
    assert [(change.clause, change.effect) for change in comparison.clauses] == [(SUM, effect)]
    assert comparison.worse == (effect == "worse")
    assert f"{SUM} (must), mypkg.dist:Gather" in said(comparison)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(OUTCOMES), st.sampled_from(OUTCOMES))
def test_forth_and_back_cannot_both_be_worse(old, new):
    one, other = made(outcome(SUM, old)), made(outcome(SUM, new))
    there, back = compare(one, other), compare(other, one)
    assert not (there.clauses and there.clauses[0].effect == back.clauses[0].effect != "changed")
    assert bool(there.clauses) == (old != new)


def test_a_verdict_that_got_worse_is_a_change():
    comparison = compare(made(), made(outcome("Function.backward.any-layout", "fail")))
    (change,) = comparison.verdicts
    assert (change.old, change.new, change.effect) == ("conforms", "deviates", "worse")


def test_the_engine_is_compared_too():
    comparison = compare(made(), made(outcome("Function.backward.receives", "fail", subject=None)))
    assert comparison.worse
    assert "PyTorch itself: conforms -> fails" in said(comparison)


def test_a_subject_that_is_gone_is_worse_and_a_new_one_is_not():
    other = subject_ref("other:Gather")
    one, two = made(), made(outcome(SUM, "fail", subject=other), subjects=[SUBJECT, other])
    assert not compare(one, two).worse
    assert compare(two, one).worse
    assert "conforms -> absent" not in said(compare(one, two))


def test_a_clause_that_is_gone_is_worse_unless_the_registry_changed():
    whole = made()
    part = whole.subjects[0]
    less = replace(whole, subjects=(replace(part, clauses=part.clauses[:-1]),))
    assert compare(whole, less).worse
    assert not compare(less, whole).worse
    retired = replace(less, suite={"version": "0.2.0", "clauses_sha256": "1" * 64})
    assert not compare(whole, retired).worse
    assert "made with different clauses (suite 0.1.0 -> 0.2.0)" in said(compare(whole, retired))


def test_what_else_differs_is_said():
    new = made()
    new = replace(new, environment={**new.environment, "torch": "2.14.0"}, interrupted=True)
    text = said(compare(made(), new))
    assert "torch: 2.13.0+cpu -> 2.14.0" in text
    assert "the new run was interrupted" in text


def test_worse_comes_first_and_json_is_plain():
    new = made(outcome(SUM, "fail", message="\x1b[31m words"))
    old = made(outcome("Function.backward.count", "fail"))
    comparison = compare(old, new)
    text = said(comparison)
    assert text.index("worse") < text.index("better")
    assert "\x1b" not in text
    assert json.loads(json.dumps(comparison.to_json()))["worse"] is True


def test_clauses_that_cannot_be_judged_because_of_another_are_told_once():
    raised = 'ValueError: not today\n  File "mine.py", line 5, in forward'
    owed = (SUM, "Function.backward.count", "Function.save_for_backward.once", "Function.backward.any-layout")
    old = made(*(outcome(name, "pass") for name in owed))
    comparison = compare(old, made(*(outcome(name, "error", message=raised) for name in owed)))
    text = said(comparison, 160)
    assert "and 2 more clauses: pass -> consequence" in text
    assert text.count("-> consequence") == 1
    assert sum(change.new == "consequence" for change in comparison.clauses) == 3
