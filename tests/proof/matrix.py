"""The kill matrix: every implementation against every clause, computed by running the suite on ranks."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from conformance.core import catalog, clauses
from conformance.core.options import RunOptions
from conformance.core.outcomes import BROKEN, TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef, plan, without_compiler
from conformance.core.worlds import SIMULATED, is_simulated
from conformance.prove.implementations import Implementation
from conformance.ranks.client import Forkserver
from conformance.ranks.settings import Settings
from conformance.ranks.simulated.group import make_group
from conformance.ranks.starter import IMPORTING
from conformance.report.consequences import with_consequences
from conformance.report.model import ClauseResult
from conformance.report.verdicts import judged
from conformance.run.emulation import emulated_library
from conformance.run.session import outcomes_of
from tests.proof.implementations import planted
from tests.proof.workers import Hasty

RANKS = (1, 2, 3)
TIMEOUT = 4.0
#: The same on a device, which its users share: NCCL takes seconds to start a group there.
TIMEOUT_ON_DEVICES = 30.0


@dataclass(frozen=True)
class Row:
    """One implementation's line of the matrix.

    ``broken`` has the first message of each clause that it was found to break; ``consequences`` the cause of each
    clause that could not be judged because another one is broken; ``unjudged`` why others could not be.
    """

    implementation: Implementation
    broken: dict[str, str]
    consequences: dict[str, str]
    unjudged: dict[str, str]
    kept: tuple[str, ...]
    #: The largest world that was run: a bug that two ranks show is given no third.
    ranks: int

    @property
    def caught(self) -> bool:
        """Whether the clause that must notice the bug did."""
        return self.implementation.breaks in {*self.broken, *self.consequences}

    @property
    def is_right(self) -> bool:
        """Whether the bug was caught; or a right class accused of nothing."""
        return self.caught if self.implementation.breaks else not self.also

    @property
    def also(self) -> tuple[str, ...]:
        """The clauses that were accused beside the one that the implementation was made to break.

        A clause of level may accuses nobody, and the cause that makes a consequence of its own clause is that clause.
        """
        registry = clauses.registry()
        own = {self.implementation.breaks, self.consequences.get(self.implementation.breaks, "")}
        return tuple(sorted(name for name in {*self.broken} - own if registry[name].level != "may"))


def items_of(implementation: Implementation) -> list[PlannedTest]:
    """The tests that an implementation goes through: the engine's for an engine bug, else all that concern it."""
    subject = SubjectRef(
        implementation.reference,
        implementation.spec,
        implementation.inputs,
        implementation.reference,
        types=implementation.types,
    )
    subjects = [] if implementation.engine else [subject]
    items = plan(catalog.suite(), clauses.registry(), subjects, RANKS)
    return [item for item in items if _concerns(item, implementation) and not item.why_not]


def _concerns(item: PlannedTest, implementation: Implementation) -> bool:
    """The compiler takes seconds, and what it compiles is as wrong as before: it is for its own bugs."""
    if item.test.compiles and implementation.breaks not in {"", item.test.clause}:
        return False
    return item.test.tests_engine == implementation.engine


def settings_of(implementation: Implementation, *path: str) -> Settings:
    """Ranks find the project first; an engine bug is planted before anything else happens there."""
    setup = (implementation.reference,) if implementation.engine else ()
    options = RunOptions(device=implementation.device).checked()
    timeout = TIMEOUT if options.device == "cpu" else TIMEOUT_ON_DEVICES
    return Settings(options.backend, options.device, timeout, (*path, os.getcwd()), setup)


def held_against(pool: Hasty, implementation: Implementation) -> Row:
    """Run an implementation. A bug that two ranks show needs no third; a correct one must pass with three too."""
    items = items_of(implementation)
    outcomes = until_broken(pool, [item for item in items if item.size < max(RANKS)], ())
    found = row(implementation, outcomes)
    if implementation.breaks and found.caught:
        return found
    return row(implementation, until_broken(pool, [item for item in items if item.size == max(RANKS)], outcomes))


def held_quickly(pool: Hasty, implementation: Implementation) -> Row:
    """Run what an implementation of its kind could break: a bug its own clause, a right one those of its neighbours."""
    planned = without_compiler(items_of(implementation), True, is_simulated(pool.settings.backend))
    items = [item for item in planned if not item.left_out]
    if wanted := {implementation.breaks} if implementation.breaks else broken_beside(implementation):
        chosen = [item for item in items if item.test.clause in wanted]
    else:
        largest_first = sorted(items, key=lambda item: -item.size)
        smallest = {(item.test.module, item.test.function, item.case): item for item in largest_first}
        chosen = [item for item in smallest.values() if not (item.test.compiles or item.test.is_fresh)]
    return row(implementation, until_broken(pool, sorted(chosen, key=lambda item: item.size), ()))


def broken_beside(implementation: Implementation) -> set[str]:
    """The clauses that bugs break in the module of the same name as a right one's, or beside it."""
    return _broken_by_module().get(_module(implementation), set())


@cache
def _broken_by_module() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for bug in planted():
        found[_module(bug)].add(bug.breaks)
    return found


def _module(implementation: Implementation) -> str:
    """The name of its module; beside a specification, that of the folder."""
    package, _, module = implementation.reference.partition(":")[0].rpartition(".")
    return package if package.startswith("spec_impl.") else module


def until_broken(pool: Hasty, items: Sequence[PlannedTest], before: Sequence[TestOutcome]) -> list[TestOutcome]:
    """Run items, and none of a clause that is broken already: more tests of it have nothing to add."""
    outcomes = list(before)
    broken = {outcome.clause for outcome in outcomes if outcome.outcome in BROKEN}
    for outcome in outcomes_of(pool, items, lambda item: item.test.clause not in broken):
        outcomes.append(outcome)
        if outcome.outcome in BROKEN:
            broken.add(outcome.clause)
    return outcomes


def row(implementation: Implementation, outcomes: Sequence[TestOutcome]) -> Row:
    """Join the outcomes of one implementation by clause.

    Raises:
        ValueError: it cannot be imported, which no clause is about.
    """
    for line in (outcome.message.partition("\n")[0] for outcome in outcomes):
        if line.startswith(IMPORTING):
            raise ValueError(f"{implementation.reference}: {line}")
    by_clause: dict[str, list[TestOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_clause[outcome.clause].append(outcome)
    broken, consequences, unjudged, kept = {}, {}, {}, []
    for result in with_consequences([result_of(clause, found) for clause, found in sorted(by_clause.items())]):
        if result.verdict == "consequence":
            consequences[result.id] = result.reason
        elif result.broken:
            broken[result.id] = f"{result.verdict}: {result.reason}"
        elif result.verdict == "skipped":
            unjudged[result.id] = result.reason
        elif any(outcome.outcome == "pass" for outcome in result.tests):
            kept.append(result.id)
    ranks = max((found.world for found in outcomes), default=0)
    return Row(implementation, broken, consequences, unjudged, tuple(kept), ranks)


def result_of(clause: str, tests: Sequence[TestOutcome]) -> ClauseResult:
    """What the tests of a clause say of it."""
    about = clauses.registry()[clause]
    return ClauseResult(clause, about.level, *judged(about, tests, ""), tuple(tests))


def task(implementation: Implementation, quick: bool = False) -> Callable[[Forkserver], Row]:
    """What it takes to compute one row.

    Quickly, ranks are simulated on the CPU; what then is not as it should be is run in full, on ranks that are
    processes. A bug, for example, may only show as the consequence of another.
    """
    simulates = quick and implementation.device == "cpu"

    def work(forkserver: Forkserver) -> Row:
        if quick:
            with pool_for(implementation, forkserver, simulates) as pool:
                found = held_quickly(pool, implementation)
            if found.is_right or not (simulates or implementation.breaks):
                return found
        with pool_for(implementation, forkserver) as pool:
            return held_against(pool, implementation)

    return work


@contextlib.contextmanager
def pool_for(implementation: Implementation, forkserver: Forkserver, simulates: bool = False) -> Iterator[Hasty]:
    """The ranks of an implementation, on its device."""
    settings = settings_of(implementation)
    with contextlib.ExitStack() as stack:
        if library := emulated_library(implementation.device):  # other ranks are to have no emulated device
            forkserver = stack.enter_context(Forkserver(library))
        if simulates:
            yield stack.enter_context(Hasty(forkserver, replace(settings, backend=SIMULATED), make_group))
        else:
            yield stack.enter_context(Hasty(forkserver, settings))
