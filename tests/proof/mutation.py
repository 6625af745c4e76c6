"""The mutation figure: how many mechanical mutants of the reference the suite notices."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance import catalogue, clauses
from conformance.plan import Item, plan
from conformance.pool import Pool, Settings
from conformance.pristine import Template
from conformance.session import reference_subjects
from tests.proof.matrix import BROKEN, TIMEOUT, side_by_side
from tests.proof.mutants import Mutant, mutants

#: Two ranks show what three would, at half the cost.
RANKS = (1, 2)
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


def items_by_module() -> Mapping[str, list[Item]]:
    """For each module of the reference the tests that its classes go through; shared modules are everybody's."""
    tests, registry = catalogue.suite(), clauses.registry()
    items: dict[str, list[Item]] = {}
    for subject in reference_subjects():
        module = subject.reference.partition(":")[0].rpartition(".")[2]
        own = [item for item in plan(tests, registry, [subject], RANKS) if item.subject and not item.why_not]
        # The spec's own tests first: they are the likeliest to notice.
        own.sort(key=lambda item: (item.size, item.group, registry[item.test.clause].spec == "Function"))
        items.setdefault(module, []).extend(own)
    shared = [item for own in items.values() for item in own if item.test.ranks]
    return {file.stem: items.get(file.stem, shared) for file in SPEC_IMPL.glob("*.py")}


def compute(wanted: Sequence[Mutant], said: Callable[[Fate], None]) -> list[Fate]:
    """Hold every mutant against the tests of its module, until one notices it."""
    items = items_by_module()

    def job(template: Template, mutant: Mutant) -> Fate:
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            home = Path(folder) / "spec_impl"
            shutil.copytree(SPEC_IMPL, home, ignore=shutil.ignore_patterns("__pycache__"))
            (home / f"{mutant.module}.py").write_text(mutant.source, encoding="utf-8")
            pool = Pool(template, Settings(timeout=TIMEOUT, path=(folder,)))
            try:
                return Fate(mutant, _killer(pool, items[mutant.module]))
            finally:
                pool.close()

    fates = side_by_side(job, wanted, said)
    place = {mutant.name: number for number, mutant in enumerate(wanted)}
    return sorted(fates, key=lambda fate: place[fate.mutant.name])


def _killer(pool: Pool, items: Sequence[Item]) -> str:
    for item in items:
        if pool.run(item).outcome in BROKEN:
            return f"{item.test.clause} ({item.test.function}, ranks {item.size})"
    return ""
