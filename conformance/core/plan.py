"""The plan of a run: every test that concerns a subject, in every world and case."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.core.catalog import SuiteError, SuiteTest
from conformance.core.clauses import CONTRACT, Clause
from conformance.core.worlds import SIMULATED, seed_of

DEFAULT_RANKS = (1, 2, 3, 4)
NOT_SIMULATED = "not run under torch.compile on simulated ranks: use --backend gloo"
NO_COMPILER = "not run under torch.compile: pass --compile, or compile=True in Python"


@dataclass(frozen=True)
class SubjectRef:
    """A subject as the controller knows it: only by name."""

    reference: str
    spec: str
    inputs: str | None = None
    label: str = ""
    payload: str = field(default="", repr=False)  # a subject that has no importable name, pickled by its owner
    types: str | None = None
    #: The world sizes that it is judged in; if empty, all that the run asks for.
    ranks: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without the pickle: no other process may load it."""
        return {name: value for name, value in vars(self).items() if name != "payload"}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SubjectRef:
        """Rebuild from :meth:`to_json`."""
        return cls(**{**data, "ranks": tuple(data["ranks"])})

    def worlds(self, asked: Sequence[int]) -> tuple[int, ...]:
        """Return the requested world sizes in which it is judged.

        >>> SubjectRef("a:B", "Collective", ranks=(2, 3)).worlds((1, 2, 4))
        (2,)
        """
        return tuple(size for size in asked if not self.ranks or size in self.ranks)


@dataclass(frozen=True)
class PlannedTest:
    """One test of one subject in one world: what pytest runs.

    ``why_not`` says why it cannot run here, ``left_out`` that it was not selected; ``where`` has the arguments of a
    command that name device and backend. ``told_once`` is for clauses that change no verdict: one failure is enough.
    """

    test: SuiteTest
    subject: SubjectRef | None
    size: int
    group: bool
    case: tuple[tuple[str, Any], ...]
    why_not: str = ""
    left_out: str = ""
    where: tuple[str, ...] = ()
    told_once: bool = False

    @property
    def name(self) -> str:
        """Return the test's name with its parameters, stable from run to run."""
        parts = [self.subject.label] if self.subject else []
        return f"{self.test.function}[{'-'.join([*parts, self._parameters])}]"

    @property
    def _parameters(self) -> str:
        return "-".join([f"ranks{self.size}", *(slug(value) for _, value in self.case)])

    @property
    def nodeid(self) -> str:
        """Return the name in reports, whatever folder the suite is installed in."""
        return f"{self.test.module.replace('.', '/')}.py::{self.name}"

    @property
    def is_of_its_spec(self) -> bool:
        """Tell whether its clause belongs to the subject's own spec."""
        return self.subject is not None and self.test.clause.startswith(f"{self.subject.spec}.")

    @property
    def world(self) -> tuple[int, bool, bool]:
        """Return the ranks it needs: how many, whether with a process group, and whether they are for the compiler."""
        return self.size, self.group, self.test.compiles

    @property
    def shared(self) -> str:
        """Return a name that is the same for tests that can run on the same ranks."""
        return "-".join(map(str, (self.label, *self.world)))

    @property
    def label(self) -> str:
        """Return the subject's name; empty for the engine."""
        return self.subject.label if self.subject else ""

    @property
    def spec(self) -> str:
        """Return the spec's name; clauses about the engine belong to the contract."""
        return self.subject.spec if self.subject else CONTRACT

    @property
    def reproduce(self) -> str:
        """Return the command that runs this test alone, or the call of ``check`` that does."""
        return self._command("-k", f"{self.test.function}[ and {self._parameters}]")

    @property
    def reproduce_among_others(self) -> str:
        """Return the command that runs this test after all others of its subject."""
        return self._command()

    def _command(self, *selected: str) -> str:
        if self.subject and not self.subject.reference:
            name = self.subject.label.rpartition(":")[2].rpartition("<locals>.")[2]
            given = [f"only={self.test.clause!r}"]
            given += [f"spec={self.subject.spec!r}"] if self.subject.spec != CONTRACT else []
            given += [f"types={self.subject.types!r}"] if self.subject.types else []
            given += [f"ranks={self.size}"] if self.size > 1 else []
            given += [simulated(self.where[-1])] if SIMULATED in " ".join(self.where) else []
            return f"check({name}, ..., {', '.join(given)})"
        words = ["conformance", "run"]
        if self.subject:
            words += [self.subject.reference, "--spec", self.subject.spec]
            words += ["--types", self.subject.types] if self.subject.types else []
            words += ["--inputs", self.subject.inputs] if self.subject.inputs else []
        if self.size > 1 or self.group:
            words += ["--ranks", str(self.size)]
        return shlex.join([*words, *self.where, *selected])


def simulated(backend: str) -> str:
    """Return the arguments of ``check`` for simulated ranks.

    >>> simulated("simulated"), simulated("simulated:7")
    ('simulated=True', 'simulated=True, schedule=7')
    """
    seed = seed_of(backend)
    return "simulated=True" + ("" if seed is None else f", schedule={seed}")


def slug(value: object) -> str:
    """Return a case's value as part of a test's name, in characters that ``-k`` takes.

    >>> slug((2, 0)), slug(()), slug("float64"), slug(-0.5)
    ('2x0', 'none', 'float64', '-0.5')
    """
    text = "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return re.sub(r"[^\w.+-]+", "_", text) or "none"


def gathering_specs(tests: Iterable[SuiteTest], clauses: Mapping[str, Clause]) -> frozenset[str]:
    """Return the specs whose tests need several ranks."""
    return frozenset(_clause_of(test, clauses).spec for test in tests if max(test.ranks, default=1) > 1)


def plan(
    tests: Sequence[SuiteTest], clauses: Mapping[str, Clause], subjects: Sequence[SubjectRef], ranks: Sequence[int]
) -> list[PlannedTest]:
    """Return every planned test of a run: the engine's first, then each subject's, by world, so that worlds are reused.

    On the same ranks the clauses of a subject's own spec come first. Tests that use the compiler come last, on ranks of
    their own: they leave traces in a process.
    """
    gathering = gathering_specs(tests, clauses)
    engine = sorted((test for test in tests if test.tests_engine), key=lambda test: test.transforms)
    planned = [found for test in engine for found in _planned(test, None, ranks, gathers=False)]
    for subject in subjects:
        own = []
        for test in tests:
            if _concerns(test, clauses[test.clause], subject):
                found = list(_planned(test, subject, ranks, subject.spec in gathering))
                own += _told_once(found) if clauses[test.clause].level == "may" else found
        planned += sorted(own, key=lambda found: (found.world, found.test.transforms, not found.is_of_its_spec))
    return sorted(planned, key=lambda found: found.test.compiles)


def promised(tests: Iterable[SuiteTest], clauses: Mapping[str, Clause], torch: str) -> tuple[SuiteTest, ...]:
    """Return the tests whose clauses apply to a version of PyTorch: some clauses came with a release."""
    from conformance.core.versions import matches_version

    return tuple(test for test in tests if matches_version(_clause_of(test, clauses).versions, torch))


def _clause_of(test: SuiteTest, clauses: Mapping[str, Clause]) -> Clause:
    """Return the clause that a test asserts.

    Raises:
        SuiteError: there is none of that id.
    """
    if test.clause not in clauses:
        raise SuiteError(f"{test.file.name}:{test.line}: {test.function} asserts {test.clause!r}, which is no clause")
    return clauses[test.clause]


def without_compiler(tests: Iterable[PlannedTest], compiles: bool, simulated: bool = False) -> list[PlannedTest]:
    """Leave out the tests that use the compiler, on simulated ranks or if nobody asked for them."""
    return [
        replace(test, left_out=NO_COMPILER if not compiles else NOT_SIMULATED)
        if test.test.compiles and not (compiles and not (simulated and test.group))
        else test
        for test in tests
    ]


def _told_once(tests: Sequence[PlannedTest]) -> list[PlannedTest]:
    """Keep tests for one rank and for the largest world, and show one failure: they change no verdict, but may hang."""
    largest = max(test.size for test in tests)
    return [replace(test, told_once=True) for test in tests if test.test.is_single_rank or test.size == largest]


def _concerns(test: SuiteTest, clause: Clause, subject: SubjectRef) -> bool:
    return not test.tests_engine and clause.spec in {CONTRACT, subject.spec}


def _planned(test: SuiteTest, subject: SubjectRef | None, ranks: Sequence[int], gathers: bool) -> Iterator[PlannedTest]:
    for size, group, why_not in _worlds(test, subject, ranks, gathers):
        for case in test.cases:
            yield PlannedTest(test, subject, size, group, case, why_not)


def _worlds(
    test: SuiteTest, subject: SubjectRef | None, ranks: Sequence[int], gathers: bool
) -> Iterator[tuple[int, bool, str]]:
    """Yield the worlds of a test: the number of ranks, whether with a process group, and why it cannot run, if so."""
    sizes = subject.worlds(ranks) if subject else tuple(ranks)
    if test.is_single_rank:
        yield from _single_rank_worlds(sizes, subject.ranks if subject else (), gathers)
        return
    if test.is_fresh and (gathers or (subject and subject.ranks and 1 not in subject.ranks)):
        return  # it is tested on one rank, without a process group
    least = min(test.ranks)
    sizes = (1,) if max(test.ranks) == 1 else tuple(size for size in sizes if size >= least)
    for size in sizes:
        yield size, test.group, ""
    if not sizes:
        yield least, test.group, _too_few(subject, ranks, least)


def _single_rank_worlds(sizes: Sequence[int], own: Sequence[int], gathers: bool) -> Iterator[tuple[int, bool, str]]:
    """Yield the worlds of a test for a single rank: one rank, whatever ``--ranks`` says, and for a gather a group too.

    A subject that is never judged on one rank runs the test in its smallest world instead.
    """
    smallest = min((size for size in sizes if size > 1 and gathers), default=1)
    if smallest == 1 or not own or 1 in own:
        yield 1, gathers, ""
    if smallest > 1:
        yield smallest, True, ""


def _too_few(subject: SubjectRef | None, ranks: Sequence[int], least: int) -> str:
    own = subject.ranks if subject else ()
    wanted = f"it is judged in worlds of {_listed(own)} ranks" if own else f"needs {least} ranks or more"
    return f"{wanted}; --ranks gave {_listed(ranks)}"


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))
