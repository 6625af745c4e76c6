"""The mutation figure: how many mechanical mutants of the reference the suite notices."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from conformance.core import catalog, clauses
from conformance.core.plan import PlannedTest, plan
from conformance.ranks.client import Forkserver
from conformance.ranks.settings import Settings
from conformance.run.session import outcomes_of, reference_subjects
from tests.proof.matrix import BROKEN, TIMEOUT
from tests.proof.mutants import Mutant, mutants
from tests.proof.workers import Hasty

#: Two ranks show most of what three would, at half the cost; not how tensors travel, which shared modules see to.
RANKS = (1, 2)
RANKS_OF_SHARED = (1, 3)
SPEC_IMPL = Path(__file__).parents[2] / "spec_impl"


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: the test that noticed it, or nothing."""

    mutant: Mutant
    killed_by: str

    @property
    def survived(self) -> bool:
        """Whether no test noticed it."""
        return not self.killed_by


def all_mutants() -> list[Mutant]:
    """The mutants of every module of the reference that holds more than documentation."""
    files = sorted(file for file in SPEC_IMPL.glob("*.py") if file.stem not in {"__init__", "function"})
    return [mutant for file in files for mutant in mutants(file)]


def items_for() -> Callable[[Mutant], list[PlannedTest]]:
    """What says which tests a mutant goes through: those of the classes that its code is part of."""
    tests, registry = catalog.suite(), clauses.registry()
    by_class, by_class_shared = (
        {
            subject.reference.partition(":")[2]: _likeliest_first(plan(tests, registry, [subject], ranks))
            for subject in reference_subjects()
        }
        for ranks in (RANKS, RANKS_OF_SHARED)
    )
    homes: dict[str, list[str]] = {}
    for subject in reference_subjects():
        module, _, name = subject.reference.partition(":")
        homes.setdefault(module.rpartition(".")[2], []).append(name)
    users = {file.stem: _users(file.stem, homes) for file in SPEC_IMPL.glob("*.py")}

    def items(mutant: Mutant) -> list[PlannedTest]:
        if mutant.module not in homes:
            own = [item for name in users[mutant.module] for item in by_class_shared[name]]
            return [item for item in own if registry[item.test.clause].spec != "Function"]
        owner = mutant.function.partition(".")[0]
        names = [owner] if owner in by_class else homes[mutant.module]
        return [item for name in names for item in by_class[name]]

    return items


def _users(module: str, homes: Mapping[str, Sequence[str]]) -> list[str]:
    """The classes that a shared module works for. The separate forms do all that the others do, and more."""
    using = [home for home in homes if f" {module}" in _imports(SPEC_IMPL / f"{home}.py")]
    return [name for home in using for name in homes[home] if name.endswith("Separate")]


def _imports(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return "\n".join(line.replace("spec_impl.", "") for line in lines if line.startswith(("import", "from spec_impl")))


def _likeliest_first(items: Sequence[PlannedTest]) -> list[PlannedTest]:
    """The tests of a class by how soon they are likely to notice something; worlds stay together.

    Several ranks come before one, the spec's own tests before those of every Function, which need one world only: one
    rank where they are asked there. The compiler is left out: it takes seconds, and what it compiles is as wrong as
    before.
    """
    registry, first = clauses.registry(), set()
    alone = {item.test for item in items if item.subject and item.size == 1}
    own = []
    for item in items:
        general = registry[item.test.clause].spec == "Function"
        asked_alone = general and item.size > 1 and item.test in alone
        if not item.subject or item.why_not or item.test.compiles or asked_alone:
            continue
        again = (item.test, item.size) in first
        first.add((item.test, item.size))
        own.append(((-item.size, item.group, general, again, item.test.transforms), item))
    return [item for _, item in sorted(own, key=lambda pair: pair[0])]


def tasks(wanted: Sequence[Mutant]) -> list[Callable[[Forkserver], Fate]]:
    """What it takes to hold every mutant against the tests of its module, until one notices it."""
    items = items_for()
    return [partial(_fate, mutant, items(mutant)) for mutant in wanted]


def _fate(mutant: Mutant, items: Sequence[PlannedTest], forkserver: Forkserver) -> Fate:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        home = Path(folder) / "spec_impl"
        home.mkdir()
        # All other modules are found where they are, and need not be compiled again.
        (home / "__init__.py").write_text(f"__path__.append({str(SPEC_IMPL)!r})\n", encoding="utf-8")
        (home / f"{mutant.module}.py").write_text(mutant.source, encoding="utf-8")
        pool = Hasty(forkserver, Settings(timeout=TIMEOUT, path=(folder,)))
        try:
            return Fate(mutant, _killer(pool, items))
        finally:
            pool.close()


def _killer(pool: Hasty, items: Sequence[PlannedTest]) -> str:
    return next((outcome.nodeid for outcome in outcomes_of(pool, items) if outcome.outcome in BROKEN), "")
