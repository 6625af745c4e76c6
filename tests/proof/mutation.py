"""The mutation figure: how many mechanical mutants of the reference the suite notices."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from conformance.core import catalog, clauses
from conformance.core.homes import ours
from conformance.core.options import RunOptions
from conformance.core.outcomes import BROKEN
from conformance.core.plan import PlannedTest, plan
from conformance.emulated import DEVICE
from conformance.prove.mutants import Mutant, mutants, put
from conformance.ranks.client import Forkserver
from conformance.ranks.settings import Settings
from conformance.run.emulation import emulated_library
from conformance.run.references import reference_subjects
from conformance.run.session import outcomes_of
from tests.proof.matrix import TIMEOUT
from tests.proof.workers import Hasty

#: Two ranks show most of what three would, at half the cost; not how tensors travel, which shared modules see to.
RANKS = (1, 2)
RANKS_OF_SHARED = (1, 3)
#: What a module says that does one thing on the CPU and another on an accelerator.
DEVICES_APART = ".device.type"
#: It takes no part in derivatives and batches: the specs of the gathers ask for all that it does.
MOVES_TENSORS = "exchange"
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
    files = [file for file in sorted(SPEC_IMPL.glob("*.py")) if file.stem not in {"__init__", "function"}]
    files += [home.folder / home.reference for home in ours().values()]
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

    def items(mutant: Mutant) -> list[PlannedTest]:
        if mutant.module not in homes:
            own = [item for name in _users(mutant, homes) for item in by_class_shared[name]]
            return _of_specs(own) if mutant.module == MOVES_TENSORS else own
        owner = mutant.function.partition(".")[0]
        names = [owner] if owner in by_class else homes[mutant.module]
        return [item for name in names for item in by_class[name]]

    return items


def _users(mutant: Mutant, homes: Mapping[str, Sequence[str]]) -> list[str]:
    """The classes that a shared module works for, by its function or as a whole; only the separate forms do it all."""
    imported = {home: set(re.findall(r"\w+", _imports(home))) for home in homes}
    by_function = [home for home, names in imported.items() if mutant.function.partition(".")[0] in names]
    by_module = [home for home, names in imported.items() if mutant.module in names]
    return [name for home in by_function or by_module for name in homes[home] if name.endswith("Separate")]


def _imports(home: str) -> str:
    (file,) = (file for file in (SPEC_IMPL / f"{home}.py", SPEC_IMPL / home / "__init__.py") if file.exists())
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
        put(mutant, ".".join(mutant.file.parent.relative_to(SPEC_IMPL.parent).parts), Path(folder))
        killer = _killer(forkserver, "cpu", folder, items)
        if not killer and DEVICES_APART in mutant.source:
            with closing(Forkserver(emulated_library(DEVICE))) as other:  # ranks of the CPU are to have no accelerator
                killer = _killer(other, DEVICE, folder, _own_once(items))
        return Fate(mutant, killer)


def _own_once(items: Sequence[PlannedTest]) -> list[PlannedTest]:
    """Each test of several ranks that is the spec's own, in one case: enough to see whether another way is wrong."""
    own = [item for item in _of_specs(items) if item.size > 1]
    return list({(item.label, item.test.function): item for item in reversed(own)}.values())[::-1]


def _of_specs(items: Sequence[PlannedTest]) -> list[PlannedTest]:
    """The tests of clauses that are not those of every Function."""
    registry = clauses.registry()
    return [item for item in items if registry[item.test.clause].spec != "Function"]


def _killer(forkserver: Forkserver, device: str, folder: str, items: Sequence[PlannedTest]) -> str:
    options = RunOptions(device=device).checked()
    pool = Hasty(forkserver, Settings(options.backend, options.device, TIMEOUT, (folder,)))
    try:
        return next((outcome.nodeid for outcome in outcomes_of(pool, items) if outcome.outcome in BROKEN), "")
    finally:
        pool.close()
