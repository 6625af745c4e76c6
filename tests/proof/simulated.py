"""Whether simulated worlds give the verdicts that real ones do: every bug and every right class that communicates.

A bug runs its own clause's tests in each world, on Gloo and simulated; a right class runs those of all clauses of its
spec in the two smallest, for with eight ranks on Gloo it would take minutes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from conformance.core import catalog, clauses
from conformance.core.outcomes import BROKEN, TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef, gathering_specs, plan
from conformance.core.worlds import SIMULATED
from conformance.prove.implementations import Implementation
from conformance.ranks.client import Forkserver
from conformance.ranks.simulated.group import make_group
from tests.proof.matrix import result_of, settings_of
from tests.proof.workers import Hasty

WORLDS = (2, 3, 4, 8)
SMALL = WORLDS[:2]
#: The word for a broken clause, whichever way a rank showed it.
BREAKS = "broken"


@dataclass(frozen=True)
class Cell:
    """What both kinds of worlds find of one clause of one class, and why, if they do not find the same."""

    implementation: str
    world: int
    clause: str
    gloo: str
    simulated: str
    why: str

    @property
    def is_equal(self) -> bool:
        """Whether they find the same."""
        return self.gloo == self.simulated

    @property
    def is_wrong(self) -> bool:
        """Whether simulated ranks accuse a class that real ones do not; what they miss is listed with a reason."""
        return self.simulated == BREAKS != self.gloo


def communicating(implementations: Iterable[Implementation]) -> list[Implementation]:
    """Those whose spec is about several ranks, on the CPU."""
    specs = gathering_specs(catalog.suite(), clauses.registry())
    return [one for one in implementations if one.spec in specs and not one.engine and one.device == "cpu"]


def task(implementation: Implementation) -> Callable[[Forkserver], tuple[Implementation, list[Cell]]]:
    """What it takes to compare one."""
    return lambda forkserver: (implementation, list(_cells(implementation, forkserver)))


def _cells(implementation: Implementation, forkserver: Forkserver) -> Iterator[Cell]:
    settings = settings_of(implementation)
    with (
        Hasty(forkserver, settings) as gloo,
        Hasty(forkserver, replace(settings, backend=SIMULATED), make_group) as simulated,
    ):
        asked = _items(implementation)
        for pool in (gloo, simulated):
            pool.look_ahead([item for items in asked.values() for item in items])
        for (world, clause), items in asked.items():
            found = [[pool.run(item) for item in items] for pool in (gloo, simulated)]
            words = [_word(clause, outcomes) for outcomes in found]
            yield Cell(implementation.reference, world, clause, *words, why=_why(found, words))


def _items(implementation: Implementation) -> dict[tuple[int, str], list[PlannedTest]]:
    """The tests that both are asked, by world and clause; the compiler is not used on simulated ranks."""
    one = implementation
    subject = SubjectRef(one.reference, one.spec, one.inputs, one.reference, types=one.types)
    found = defaultdict(list)
    for world in WORLDS if one.breaks else SMALL:
        for item in plan(catalog.suite(), clauses.registry(), [subject], (world,)):
            own = item.test.clause == one.breaks if one.breaks else item.test.clause.startswith(f"{one.spec}.")
            if own and item.size == world and item.subject and not item.test.compiles and not item.why_not:
                found[world, item.test.clause].append(item)
    return found


def _word(clause: str, outcomes: Sequence[TestOutcome]) -> str:
    verdict = result_of(clause, outcomes).verdict
    return BREAKS if verdict in BROKEN else verdict


def _why(found: Sequence[Sequence[TestOutcome]], words: Sequence[str]) -> str:
    """What a test says that does not end alike, one that broke if any did; on simulated ranks if it says it there."""
    if words[0] == words[1]:
        return ""
    unlike = [pair for pair in zip(*found, strict=True) if pair[0].outcome != pair[1].outcome]
    telling = min(unlike, key=lambda pair: pair[0].outcome not in BROKEN, default=())
    told = (one.reason or one.message for one in reversed(telling))
    return next((text.splitlines()[0] for text in told if text), "")


def row(implementation: Implementation, cells: Sequence[Cell]) -> dict[str, Any]:
    """What was found of one, for the data: how many verdicts are equal in each world, and those that are not."""
    equal = Counter(cell.world for cell in cells if cell.is_equal)
    unequal = [asdict(cell) for cell in cells if not cell.is_equal]
    return {"implementation": implementation.reference, "equal": dict(sorted(equal.items())), "unequal": unequal}


def page(rows: Iterable[dict[str, Any]]) -> str:
    """The table of the site: how many verdicts are equal by world, and every one that is not, with the reason."""
    equal: Counter[int] = Counter()
    cells = []
    for one in rows:
        equal.update({int(world): count for world, count in one["equal"].items()})
        cells += [Cell(**cell) for cell in one["unequal"]]
    lines = ["| ranks | verdicts compared | equal |", "|---|---|---|"]
    for world in WORLDS:
        own = equal[world]
        lines.append(f"| {world} | {own + sum(cell.world == world for cell in cells)} | {own} |")
    if cells:
        lines += ["", "| class | ranks | clause | Gloo | simulated | reason |", "|---|---|---|---|---|---|"]
    joined = defaultdict(list)
    for cell in cells:
        joined[cell.implementation, cell.clause, cell.gloo, cell.simulated].append(cell)
    for (name, clause, gloo, simulated), alike in joined.items():
        worlds, reason = ", ".join(str(cell.world) for cell in alike), alike[0].why.replace("|", "\\|")
        lines.append(f"| `{name}` | {worlds} | `{clause}` | {gloo} | {simulated} | {reason} |")
    return "\n".join(lines) + "\n"
