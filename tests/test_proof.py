"""The quick matrix asks what a class could break by its kind; verdicts of simulated worlds are compared with Gloo's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest
from conformance.prove.mutants import mutants
from conformance.ranks.settings import Settings
from conformance.ranks.starter import IMPORTING
from tests.proof import implementations, matrix, simulated
from tests.proof.matrix import Row, held_quickly

ALL = {one.reference: one for one in (*implementations.planted(), *implementations.correct())}

BUG = next(one for one in ALL.values() if one.breaks and not one.engine)
RIGHT = next(one for one in implementations.correct() if one.reference.startswith("tests.correct.vmap:"))
#: A class, the clauses that its tests find broken, and the ranks that it is asked on.
QUICKLY = [
    (BUG.reference, [BUG.breaks], ["simulated"]),
    (BUG.reference, [], ["simulated", "gloo"]),
    (RIGHT.reference, [], ["simulated"]),
    (RIGHT.reference, ["Function.vmap.batched"], ["simulated", "gloo"]),
]


class Asked:
    """Stands for a pool: notes which tests are asked, of which the named clauses fail."""

    def __init__(self, *broken: str, backend: str = "gloo") -> None:
        self.broken = broken
        self.settings = Settings(backend)
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
    asked, row = quick(BUG.reference, BUG.breaks)
    assert asked.clauses == {BUG.breaks}
    assert row.caught


@pytest.mark.parametrize(("name", "broken", "asked"), QUICKLY)
def test_what_is_not_as_it_should_be_on_simulated_ranks_is_asked_everything_on_real_ones(
    monkeypatch, name, broken, asked
):
    pools = []

    @contextmanager
    def pool_for(_, __, simulates=False):
        pools.append(Asked(*broken, backend="simulated" if simulates else "gloo"))
        yield pools[-1]

    monkeypatch.setattr(matrix, "pool_for", pool_for)
    matrix.task(ALL[name], quick=True)(None)
    assert [pool.settings.backend for pool in pools] == asked
    if len(pools) > 1:
        assert pools[1].clauses == {item.test.clause for item in matrix.items_of(ALL[name])} > pools[0].clauses


def test_a_right_class_that_is_accused_on_a_device_was_asked_on_real_ranks_already(monkeypatch):
    backends = []

    @contextmanager
    def pool_for(_, __, simulates=False):
        backends.append("simulated" if simulates else "gloo")
        yield Asked("Function.vmap.batched")

    monkeypatch.setattr(matrix, "pool_for", pool_for)
    row = matrix.task(replace(RIGHT, device="cuda"), quick=True)(None)
    assert row.also == ("Function.vmap.batched",)
    assert backends == ["gloo"]


def test_what_simulated_ranks_cannot_compile_is_not_asked_there():
    bug = next(one for one in ALL.values() if one.breaks == "Function.compile.agrees" and one.spec == "Collective")
    for backend, clauses in (("gloo", {bug.breaks}), ("simulated", set())):
        pool: Any = Asked(backend=backend)
        held_quickly(pool, bug)
        assert pool.clauses == clauses


def test_a_right_class_is_asked_what_the_bugs_of_its_kind_break():
    asked, _ = quick(RIGHT.reference)
    beside = {one.breaks for one in ALL.values() if one.reference.startswith("tests.planted.vmap:")}
    assert asked.clauses == beside


def test_a_right_class_without_bugs_of_its_kind_is_asked_everything_in_its_smallest_world():
    name = next(name for name in ALL if name.startswith("tests.correct.collective_shapes:"))
    asked, _ = quick(name)
    left_out = {item.test.clause for item in asked.items} ^ {item.test.clause for item in matrix.items_of(ALL[name])}
    assert all(item.test.compiles or item.test.is_fresh for item in matrix.items_of(ALL[name])
               if item.test.clause in left_out)  # fmt: skip
    tests = [(item.test.module, item.test.function, item.case) for item in asked.items]
    assert len(tests) == len(set(tests))


def test_a_bug_that_cannot_be_imported_is_not_caught():
    told = f"{IMPORTING}: NameError: name 'of_shapes' is not defined"
    outcome = TestOutcome("test_x", "error", 0.0, clause=BUG.breaks, world=1, message=told)
    with pytest.raises(ValueError, match=f"{BUG.reference}: {IMPORTING}: NameError"):
        matrix.row(BUG, [outcome])


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
    row = simulated.row(RIGHT, [cell])
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
