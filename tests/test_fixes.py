"""The code that the site shows for each must: ``wrong`` breaks the clause, ``right`` keeps it."""

from __future__ import annotations

from collections import defaultdict

import pytest

from conformance.core.clauses import registry
from conformance.core.options import RunOptions
from conformance.core.outcomes import BROKEN
from conformance.core.plan import SubjectRef
from conformance.run.session import Session
from tests import fixed

ON_A_DEVICE = "Function.forward.device"
#: Two numbers have one sum, in whatever order.
ON_THREE_RANKS = "Collective.backward.types"


def ran(clauses: list[str], device: str = "cpu", ranks: tuple[int, ...] = (1, 2)) -> dict[str, set[str]]:
    """What became of the clause's own tests, for each subject of each clause; one that is broken needs no more."""
    subjects = {f"{fixed.__name__}:{fixed.name_of(name, which)}": name for name in clauses for which in fixed.WHICH}
    known = [SubjectRef(name, registry()[clause].spec, label=name) for name, clause in subjects.items()]
    found: dict[str, set[str]] = defaultdict(set)
    with Session(RunOptions(tuple(subjects), device=device, ranks=ranks, timeout=6), subjects=known) as session:
        session.pool.look_ahead(session.tests)
        for test in session.tests:
            name = test.subject.reference if test.subject else ""
            if name in subjects and test.test.clause == subjects[name] and not test.why_not:
                before = found[name.partition(":")[2]]
                if before.isdisjoint(BROKEN):
                    before.add(session.pool.run(test).outcome)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    others = [name for name in fixed.FIXES if name not in {ON_A_DEVICE, ON_THREE_RANKS}]
    return {**ran(others), **ran([ON_A_DEVICE], "emulated"), **ran([ON_THREE_RANKS], ranks=(3,))}


def test_every_must_has_a_fix():
    owed = {name for name, clause in registry().items() if (clause.party, clause.level) == ("function", "must")}
    assert fixed.FIXES.keys() == owed, (
        "conf/fixes.toml and the page.toml of each spec have an entry for each must of Functions"
    )


@pytest.mark.parametrize("clause", fixed.FIXES)
def test_the_broken_code_breaks_the_clause(clause, found):
    assert not found[fixed.name_of(clause, "wrong")].isdisjoint(BROKEN)


@pytest.mark.parametrize("clause", fixed.FIXES)
def test_the_mended_code_keeps_the_clause(clause, found):
    outcomes = found[fixed.name_of(clause, "right")]
    assert outcomes.isdisjoint(BROKEN)
    assert "pass" in outcomes
