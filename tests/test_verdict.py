"""From outcomes to verdicts: nothing that was not run counts as passed, and no rank is overlooked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.core.outcomes import OUTCOMES
from conformance.core.versions import matches_version
from conformance.report.model import NOT_SELECTED, page_of
from conformance.report.verdicts import clause_verdict, exit_status, judge
from tests.made_up import (
    CLAUSES,
    ENVIRONMENT,
    GATHER,
    OWED,
    SUBJECT,
    clause,
    engine_passes,
    made,
    outcome,
    plan,
    subject_ref,
    with_note,
)

SUM = f"{GATHER}.backward.sum"
ORDER = ["crash", "timeout", "error", "fail", "skipped", "pass", "not-applicable"]


def verdict_on(report, name=SUM):
    return next(own for own in report.subjects[0].clauses if own.id == name)


@given(st.lists(st.sampled_from(OUTCOMES), max_size=6))
def test_a_clause_gets_the_worst_of_its_tests(words):
    tests = [outcome(SUM, word) for word in words]
    verdicts = {"skipped" if word == "skip" else word for word in words}
    assert clause_verdict(tests) == next((word for word in ORDER if word in verdicts), "skipped")


def test_a_planned_test_that_gave_nothing_is_skipped_with_a_reason():
    report = made(planned=[plan(SUM, function="test_unrun")], missing="not run: interrupted")
    assert (verdict_on(report).verdict, verdict_on(report).reason) == ("skipped", "not run: interrupted")
    assert report.subjects[0].verdict == "incomplete"


def test_a_planned_test_that_was_not_asked_for_says_so():
    asked = plan(SUM, function="test_asked")
    report = made(planned=[asked, plan(SUM, function="test_other")], selected={asked.nodeid})
    assert verdict_on(report).reason == "not run; not selected"
    report = made(planned=[plan(SUM, function="test_other")], selected=())
    assert (verdict_on(report).reason, verdict_on(report).was_selected) == (NOT_SELECTED, False)


def test_a_planned_test_that_ran_is_counted_once():
    report = made(planned=[plan(name) for name in OWED])
    assert report.subjects[0].verdict == "conforms"
    assert all(len(own.tests) == 1 for own in report.subjects[0].clauses)


def test_the_same_test_on_another_subject_does_not_count_for_this_one():
    other = subject_ref("mypkg.dist:Other")
    report = judge([outcome(SUM, subject=other)], [plan(SUM)], [SUBJECT, other], CLAUSES, ENVIRONMENT)
    assert verdict_on(report).verdict == "skipped"


def test_a_clause_that_no_test_is_about_is_skipped_and_never_passed():
    report = judge([outcome(SUM)], [], [SUBJECT], CLAUSES, ENVIRONMENT)
    found = {own.id: own.verdict for own in report.subjects[0].clauses}
    assert found == {name: "pass" if name == SUM else "skipped" for name in OWED}
    assert [own.verdict for own in report.engine] == ["skipped"]
    assert report.subjects[0].verdict == "incomplete"


def test_nothing_at_all_is_incomplete():
    report = judge([], [], [SUBJECT], CLAUSES, ENVIRONMENT)
    assert report.subjects[0].verdict == "incomplete"
    assert exit_status(report) == 1
    assert exit_status(judge([], [], [], {}, ENVIRONMENT)) == 1


def test_a_subject_that_nothing_applies_to_does_not_conform():
    report = made(*(outcome(name, "not-applicable") for name in OWED))
    assert report.subjects[0].verdict == "incomplete"


def test_a_subject_owes_the_contract_and_its_own_spec():
    assert tuple(own.id for own in made().subjects[0].clauses) == OWED
    plain = subject_ref("m:F", "Function")
    assert [own.id for own in made(subjects=[plain]).subjects[0].clauses] == list(OWED[:3])


def test_an_outcome_of_nobody_breaks_the_suite_loudly():
    with pytest.raises(ValueError, match="no docstring states"):
        judge([outcome("No.such.clause")], [], [SUBJECT], CLAUSES, ENVIRONMENT)
    with pytest.raises(ValueError, match="no subject of this run"):
        judge([outcome(SUM)], [], [], CLAUSES, ENVIRONMENT)
    with pytest.raises(ValueError, match="no subject of this run"):
        judge([], [plan(SUM)], [subject_ref(SUBJECT.label, "Function")], CLAUSES, ENVIRONMENT)


def test_a_clause_promised_for_another_pytorch_is_not_applicable():
    clauses = {**CLAUSES, "Function.new.thing": clause("Function.new.thing", versions="torch>=2.14")}
    found = next(own for own in made(clauses=clauses).subjects[0].clauses if own.id == "Function.new.thing")
    assert (found.verdict, found.reason) == ("not-applicable", "promised for torch>=2.14 alone")
    clauses["Function.new.thing"] = clause("Function.new.thing", versions="torch>=2.12")
    assert made(clauses=clauses).subjects[0].verdict == "incomplete"


@pytest.mark.parametrize(
    ("broken", "skipped", "expected"),
    [
        ([], [], "conforms"),
        ([SUM], [], "fails"),
        ([SUM], ["Function.backward.count"], "fails"),
        (["Function.save_for_backward.once"], [], "deviates"),
        (["Function.backward.any-layout"], [], "deviates"),
        (["Function.backward.any-layout"], [SUM], "incomplete"),
        ([], ["Function.backward.any-layout"], "incomplete"),
    ],
)
@pytest.mark.parametrize("word", ["fail", "crash", "timeout", "error"])
def test_verdict_on_a_subject(broken, skipped, expected, word):
    tests = [outcome(name, word, guilty=[1]) for name in broken] + [outcome(name, "skip") for name in skipped]
    assert made(*tests).subjects[0].verdict == expected


@pytest.mark.parametrize(
    ("tests", "plain", "strict"),
    [
        ([], 0, 0),
        ([outcome(SUM, "fail")], 1, 1),
        ([outcome(SUM, "skip")], 1, 1),
        ([outcome("Function.backward.any-layout", "fail")], 0, 1),
        ([outcome("Function.backward.receives", "fail", subject=None)], 1, 1),
        ([outcome("Function.backward.receives", "skip", subject=None)], 0, 1),
    ],
)
def test_the_exit_status_follows_from_the_verdicts(tests, plain, strict):
    report = made(*tests)
    assert (exit_status(report), exit_status(report, strict=True)) == (plain, strict)
    assert exit_status(replace(report, interrupted=True)) == 2
    assert exit_status(replace(report, interrupted=True), broken=True) == 3


def test_a_may_clause_is_told_and_changes_no_verdict():
    report = with_note()
    assert verdict_on(report, "Function.new.thing").verdict == "fail"
    assert report.subjects[0].verdict == "conforms"
    assert exit_status(report, strict=True) == 0


def test_a_second_subject_counts_too():
    other = subject_ref("mypkg.dist:Other")
    assert exit_status(made(outcome(SUM, "fail", subject=other), subjects=[SUBJECT, other])) == 1


def test_with_no_subject_the_engine_decides():
    assert exit_status(judge([engine_passes()], [], [], CLAUSES, ENVIRONMENT)) == 0
    assert exit_status(judge([], [], [], CLAUSES, ENVIRONMENT)) == 1


def test_an_engine_that_was_not_to_be_tested_is_left_out():
    report = judge([outcome(name) for name in OWED], [], [SUBJECT], CLAUSES, ENVIRONMENT, engine=False)
    assert report.engine == ()
    assert exit_status(report, strict=True) == 0


def test_reasons_are_those_of_the_deciding_tests():
    tests = [
        outcome(SUM, "fail", node="a", message="gradient of x\nactual: 1"),
        outcome(SUM, "skip", node="b", reason="needs a GPU"),
        outcome(SUM, "fail", node="c", message="gradient of x\nactual: 2"),
    ]
    assert verdict_on(made(*tests)).reason == "gradient of x"
    assert verdict_on(made()).reason == ""


@pytest.mark.parametrize(
    ("versions", "torch", "inside"),
    [
        ("torch<2.14", "2.13.0+cpu", True),
        ("torch < 2.13", "2.13.0+cpu", False),
        (">=2.14", "2.14.0.dev20260101", True),
        ("torch<2.14", "2.14.0.dev20260101+cu128", False),
        ("torch<2.14", "unknown", True),
        (">=2.13, <3", "2.14.0.dev20260101", True),
        ("", "2.13", True),
    ],
)
def test_a_version_of_pytorch_is_within_a_specifier_or_not(versions, torch, inside):
    assert matches_version(versions, torch) is inside


def test_the_page_of_a_clause():
    assert page_of(CLAUSES[SUM]) == f"api/spec_impl/ksuit/index.html#clause-{SUM}"
