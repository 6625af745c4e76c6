"""The plan: in which worlds a subject's tests run."""

from __future__ import annotations

import pytest
import torch

from conformance import GROUP, ConformanceError, Subject, check
from conformance.core import catalog, clauses
from conformance.core.errors import UsageError
from conformance.core.options import RunOptions
from conformance.core.plan import SubjectRef, plan
from conformance.kit.loading import check_subject
from conformance.run.references import reference_subjects
from conformance.run.session import Session
from tests.correct import collective as right

JUDGED_ON_TWO_AND_THREE = Subject(
    right.Copy, spec="Collective", types="I -> R", inputs=[(torch.ones(2), GROUP)], ranks=(2, 3)
)
NOT_ON_FOUR = "it is judged in worlds of 2, 3 ranks; --ranks gave 4"


def worlds(subject: SubjectRef, *asked: int) -> dict[str, set[int]]:
    """The worlds in which each clause is judged."""
    found: dict[str, set[int]] = {}
    for item in plan(catalog.suite(), clauses.registry(), [subject], asked):
        if item.subject and not item.why_not:
            found.setdefault(item.test.clause, set()).add(item.size)
    return found


def test_a_subject_without_ranks_is_judged_in_every_world_asked_for():
    found = worlds(SubjectRef("a:B", "Collective"), 1, 2, 4)
    assert found["Collective.backward.gradient"] == {2, 4}
    assert found["Function.backward.count"] == {1, 2}


def test_a_subject_is_judged_in_its_own_worlds_alone():
    found = worlds(SubjectRef("a:B", "Collective", ranks=(2, 3)), 1, 2, 3, 4)
    assert found["Collective.backward.gradient"] == {2, 3}
    assert found["Function.backward.count"] == {2}


def test_a_clause_about_one_rank_is_judged_all_the_same():
    subject = SubjectRef("a:B", "Collective", ranks=(2, 3))
    assert worlds(subject, 2, 3)["Collective.forward.one-rank"] == {1}
    assert worlds(subject, 1)["Function.backward.count"] == {1}
    assert worlds(SubjectRef("a:B", "Function", ranks=(2,)), 1, 2)["Function.backward.count"] == {1}


def test_what_is_only_told_is_looked_at_in_the_largest_world_alone():
    found = worlds(SubjectRef("a:B", "AllGather"), 1, 2, 3)
    assert found["AllGather.forward.mismatch"] == {3}
    assert found["AllGather.forward.concatenates"] == {1, 2, 3}
    assert worlds(SubjectRef("a:B", "AllGather"), 2)["AllGather.forward.mismatch"] == {2}
    assert found["Function.compile.fullgraph"] == {1, 2}


@pytest.mark.parametrize("spec", ["AllGather", "Collective", "Function", "GradFactor"])
def test_on_the_same_ranks_the_clauses_of_its_own_spec_come_first(spec):
    """A rank that leaves a collective out is told as that: after a few hangs the subject is given up."""
    planned = plan(catalog.suite(), clauses.registry(), [SubjectRef("a:B", spec)], (1, 2))
    places = [(item.world, item.test.transforms) for item in planned if item.subject]
    is_own = [item.test.clause.startswith(f"{spec}.") for item in planned if item.subject]
    for place in dict.fromkeys(places):
        there = [own for found, own in zip(places, is_own, strict=True) if found == place]
        assert there == sorted(there, reverse=True), place


def test_no_world_in_common_is_said():
    items = plan(catalog.suite(), clauses.registry(), [SubjectRef("a:B", "Collective", ranks=(2, 3))], (4,))
    (item,) = (item for item in items if item.test.function == "test_alike_gradients_are_alike")
    assert item.why_not == NOT_ON_FOUR


def test_a_session_reads_the_worlds_of_a_subject():
    with Session(RunOptions(subjects=("tests.test_plan:JUDGED_ON_TWO_AND_THREE",))) as session:
        assert {test.size for test in session.tests if test.subject and test.group} == {1, 2, 3}
        assert [subject.ranks for subject in session.subjects] == [(2, 3)]


def test_check_reads_the_worlds_of_a_subject():
    with pytest.raises(ConformanceError, match=f"incomplete(.|\n)*{NOT_ON_FOUR}"):
        check(JUDGED_ON_TWO_AND_THREE, ranks=4, only="Collective.backward.types")


@pytest.mark.parametrize("ranks", [2, (), (0,), (5000,), ("2",), (True,)])
def test_worlds_that_cannot_be_are_refused(ranks):
    with pytest.raises(UsageError, match=r"ranks= are world sizes from 1 to 4096, such as ranks=\(2, 3\)"):
        check_subject(Subject(right.Copy, spec="Collective", inputs=[(torch.ones(2), GROUP)], ranks=ranks))


def test_every_clause_is_judged_for_every_reference_collective():
    theirs = {name for name, clause in clauses.registry().items() if clause.spec == "Collective"}
    for subject in reference_subjects():
        if subject.spec == "Collective":
            assert theirs <= worlds(subject, 1, 2, 3, 4).keys()
            assert max(worlds(subject, 1, 2, 3, 4)["Collective.group.subgroup"]) == 3


def test_what_is_only_told_is_told_once():
    items = plan(catalog.suite(), clauses.registry(), [SubjectRef("a:B", "AllGather")], (1, 2))
    levels = {item.test.clause: clauses.registry()[item.test.clause].level for item in items if item.subject}
    assert {item.test.clause for item in items if item.told_once} == {
        name for name, level in levels.items() if level == "may"
    }
