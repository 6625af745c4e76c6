"""The kill matrix: every implementation against every clause, computed by running the suite on ranks."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from conformance.core import catalog, clauses
from conformance.core.outcomes import BROKEN, TestOutcome, worst
from conformance.core.plan import PlannedTest, SubjectRef, plan
from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Settings
from tests.proof.implementations import Implementation
from tests.proof.workers import Hasty

RANKS = (1, 2, 3)
TIMEOUT = 4.0


@dataclass(frozen=True)
class Row:
    """One implementation's line of the matrix: the clauses it was found to break, and the first message of each."""

    implementation: Implementation
    broken: dict[str, str]
    kept: tuple[str, ...]
    #: The largest world that was run: a bug that two ranks show is given no third.
    ranks: int

    @property
    def caught(self) -> bool:
        """Whether the clause that must notice the bug did."""
        return self.implementation.breaks in self.broken

    @property
    def precise(self) -> bool:
        """Whether nothing else was accused."""
        return not self.accused

    @property
    def accused(self) -> tuple[str, ...]:
        """Clauses that were accused and that the implementation keeps."""
        allowed = {self.implementation.breaks, *self.implementation.also}
        return tuple(sorted(set(self.broken) - allowed))


def items_of(implementation: Implementation) -> list[PlannedTest]:
    """The tests that an implementation goes through: the engine's for an engine bug, else all that concern it."""
    subject = SubjectRef(implementation.reference, implementation.spec, implementation.inputs, implementation.reference)
    subjects = [] if implementation.engine else [subject]
    items = plan(catalog.suite(), clauses.registry(), subjects, RANKS)
    return [item for item in items if item.test.about_engine == implementation.engine and not item.why_not]


def settings_of(implementation: Implementation, *path: str) -> Settings:
    """Ranks find the project first; an engine bug is planted before anything else happens there."""
    setup = (implementation.reference,) if implementation.engine else ()
    return Settings(timeout=TIMEOUT, path=(*path, os.getcwd()), setup=setup)


def held_against(pool: Hasty, implementation: Implementation) -> Row:
    """Run an implementation. A bug that two ranks show needs no third; a correct one must pass with three too."""
    items = items_of(implementation)
    pool.look_ahead(items)
    outcomes = until_broken(pool, [item for item in items if item.size < max(RANKS)], ())
    found = row(implementation, outcomes)
    if implementation.breaks and found.caught:
        return found
    return row(implementation, until_broken(pool, [item for item in items if item.size == max(RANKS)], outcomes))


def until_broken(pool: Hasty, items: Iterable[PlannedTest], before: Sequence[TestOutcome]) -> list[TestOutcome]:
    """Run items, and none of a clause that is broken already: more tests of it have nothing to add."""
    outcomes = list(before)
    broken = {outcome.clause for outcome in outcomes if outcome.outcome in BROKEN}
    for item in items:
        if item.test.clause not in broken:
            outcomes.append(pool.run(item))
            if outcomes[-1].outcome in BROKEN:
                broken.add(item.test.clause)
    return outcomes


def row(implementation: Implementation, outcomes: Iterable[TestOutcome]) -> Row:
    """Join the outcomes of one implementation by clause."""
    by_clause: dict[str, list[TestOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_clause[outcome.clause].append(outcome)
    broken, kept = {}, []
    for clause, found in sorted(by_clause.items()):
        joined = worst([outcome.outcome for outcome in found])
        if joined in BROKEN:
            first = next(outcome for outcome in found if outcome.outcome == joined)
            broken[clause] = f"{joined}: {first.message.splitlines()[0] if first.message else ''}"
        elif any(outcome.outcome == "pass" for outcome in found):
            kept.append(clause)
    return Row(implementation, broken, tuple(kept), max((outcome.world for outcome in outcomes), default=0))


def task(implementation: Implementation) -> Callable[[Forkserver], Row]:
    """What it takes to compute one row."""

    def work(template: Forkserver) -> Row:
        pool = Hasty(template, settings_of(implementation))
        try:
            return held_against(pool, implementation)
        finally:
            pool.close()

    return work
