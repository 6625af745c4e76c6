"""The quick matrix asks what a class could break by its kind; verdicts of simulated worlds are compared with Gloo's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest
from conformance.prove.mutants import mutants
from tests.proof import implementations, matrix, simulated
from tests.proof.matrix import Row, held_quickly

ALL = {one.reference: one for one in (*implementations.planted(), *implementations.correct())}


class Asked:
    """Stands for a pool: notes which tests are asked, of which the named clauses fail."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.items: list[PlannedTest] = []

    def look_ahead(self, _: Sequence[PlannedTest]) -> None:
        """Called before the tests are run."""

    def run(self, item: PlannedTest) -> TestOutcome:
        """Called for each test."""
        self.items.append(item)
        outcome = "fail" if item.test.clause in self.broken else "pass"
        return TestOutcome(item.nodeid, outcome, 0.0, clause=item.test.clause, world=item.size)

    @property
    def clauses(self) -> set[str]:
        """The clauses that were asked."""
        return {item.test.clause for item in self.items}


def quick(name: str, *broken: str) -> tuple[Asked, Row]:
    pool: Any = Asked(*broken)
    return pool, held_quickly(pool, ALL[name])


def test_a_bug_that_its_own_clause_notices_is_asked_nothing_else():
    bug = next(one for one in ALL.values() if one.breaks and not one.engine)
    asked, row = quick(bug.reference, bug.breaks)
    assert asked.clauses == {bug.breaks}
    assert row.caught


def test_a_bug_that_its_own_clause_does_not_notice_is_asked_everything():
    bug = next(one for one in ALL.values() if one.breaks and not one.engine)
    asked, row = quick(bug.reference)
    assert asked.clauses >= {item.test.clause for item in matrix.items_of(bug)} > {bug.breaks}
    assert not row.caught


def test_a_right_class_is_asked_what_the_bugs_of_its_kind_break():
    asked, _ = quick("tests.correct.vmap:" + _names("vmap")[0])
    beside = {one.breaks for one in ALL.values() if one.reference.startswith("tests.planted.vmap:")}
    assert asked.clauses == beside


def test_a_right_class_without_bugs_of_its_kind_is_asked_everything_in_its_smallest_world():
    name = "tests.correct.collective_shapes:" + _names("collective_shapes")[0]
    asked, _ = quick(name)
    left_out = {item.test.clause for item in asked.items} ^ {item.test.clause for item in matrix.items_of(ALL[name])}
    assert all(item.test.compiles or item.test.is_fresh for item in matrix.items_of(ALL[name])
               if item.test.clause in left_out)  # fmt: skip
    tests = [(item.test.module, item.test.function, item.case) for item in asked.items]
    assert len(tests) == len(set(tests))


def _names(module: str) -> list[str]:
    start = f"tests.correct.{module}:"
    return [name.removeprefix(start) for name in ALL if name.startswith(start)]


@pytest.mark.parametrize(
    ("gloo", "other", "equal", "wrong"),
    [
        ("broken", "broken", True, False),
        ("pass", "not-applicable", False, False),
        ("broken", "pass", False, False),
        ("pass", "broken", False, True),
    ],
)
def test_a_verdict_is_wrong_if_simulated_ranks_alone_find_the_class_broken(gloo, other, equal, wrong):
    cell = simulated.Cell("m:C", 2, "Collective.forward.types", gloo, other, "" if equal else "because")
    assert (cell.is_equal, cell.is_wrong) == (equal, wrong)
    row = simulated.row(ALL["tests.correct.vmap:" + _names("vmap")[0]], [cell])
    page = simulated.page([json.loads(json.dumps(row))])
    assert ("because" in page) != equal
    assert f"| 2 | 1 | {int(equal)} |" in page


def test_a_mutant_of_the_kit_is_noticed_by_what_ends_otherwise_and_nothing_is_where_nothing_is_changed(monkeypatch):
    from tests.proof import constants, kit_mutants
    from tests.proof.noticing import Noticed

    monkeypatch.setattr(kit_mutants, "of_contract", lambda: ())
    chosen = [one for one in constants.witnesses() if one.name.startswith("declared, off by")]
    monkeypatch.setattr(constants, "witnesses", lambda: chosen)
    file = kit_mutants.KIT / "oracles" / "formula.py"
    one = next(each for each in mutants(file) if each.function == "judged_by_formula")
    source = file.read_text("utf-8")
    agrees = source.replace('"differs" if error', '"differs" if False and error')
    assert agrees != source
    wanted = [replace(one, source=text) for text in (source, agrees)]
    same, changed = kit_mutants.fates(wanted, lambda _: None)
    assert same.noticed == Noticed("", len(chosen))
    assert changed.noticed.by == "declared, off by 1e-13"
