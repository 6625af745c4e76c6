"""Carry out a run, from its options to its report: import the subjects, then plan, run and judge the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from conformance.core import catalog, clauses
from conformance.core.catalog import SuiteTest
from conformance.core.errors import UsageError
from conformance.core.options import RunOptions
from conformance.core.outcomes import BAD_SUBJECT
from conformance.core.plan import PlannedTest, SubjectRef, plan, promised, without_compiler
from conformance.core.signatures import parse
from conformance.core.worlds import is_simulated
from conformance.ranks.client import Forkserver
from conformance.ranks.devices import check_names, missing, missing_here
from conformance.ranks.first_look import Preflight, misfit, preflight
from conformance.ranks.group import RankGroup
from conformance.ranks.hardware import Hardware
from conformance.ranks.place import no_such_interface
from conformance.ranks.pool import Pool
from conformance.ranks.settings import Settings, search_path
from conformance.ranks.simulated.group import make_group
from conformance.run.emulation import emulated_library
from conformance.run.entry_points import registered
from conformance.run.references import reference_subjects
from conformance.run.reporting import environment_of, report_on

if TYPE_CHECKING:
    from conformance.core.outcomes import TestOutcome
    from conformance.ranks.cluster.leader import Cluster
    from conformance.report.model import Report


def promised_tests(*specs: str) -> tuple[SuiteTest, ...]:
    """Return the tests of what the installed PyTorch promises: some clauses need a later release."""
    try:
        torch = version("torch")  # the version is known without an import
    except PackageNotFoundError:
        torch = ""
    return promised(catalog.suite(*specs), clauses.registry(*specs), torch)


class Session:
    """One run: plans the tests, owns the processes they run in, and judges the outcomes.

    Use it as a context manager. The forkserver imports torch while this process goes on.
    """

    def __init__(
        self,
        options: RunOptions,
        *,
        subjects: Sequence[SubjectRef] | None = None,
        forkserver: Forkserver | None = None,
        cluster: Cluster | None = None,
        path: Sequence[str] | None = None,
    ) -> None:
        """Check the options, and start a forkserver.

        Args:
            options: the run's options.
            subjects: the subjects under test, if they have been imported and checked already.
            forkserver: the process that ranks are forked from; if None, one is started that ends with the session.
            cluster: the launched processes, if the run is under a launcher.
            path: where ranks look for modules; by default the current directory first, as for ``python -m``.

        Raises:
            UsageError: an option cannot be used.
        """
        self.options = options.checked()
        self._given = forkserver
        self.forkserver = forkserver or Forkserver(emulated_library(self.options.device))
        self.cluster = cluster
        self.path = tuple(path) if path is not None else search_path()
        self._known = subjects
        self._pool: Pool | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the run."""
        if self._pool is not None:
            self._pool.close()
        if self._given is None:
            self.forkserver.close()

    @property
    def pool(self) -> Pool:
        """Return the pool of ranks that tests run on."""
        if self._pool is None:
            options = self.options
            device = "cpu" if self._missing(1, False) else options.device  # no test runs, but subjects are imported
            settings = Settings(
                options.backend, device, options.timeout, self.path, options.setup, resolution=options.resolution
            )
            making = make_group if is_simulated(options.backend) else RankGroup
            self._pool = Pool(self.forkserver, settings, self.cluster.rank_group if self.cluster else making)
        return self._pool

    def plan(self) -> None:
        """Import the subjects and plan the tests.

        Raises:
            UsageError: a name leads nowhere, or to nothing that can be tested.
        """
        _ = self.tests

    @cached_property
    def subjects(self) -> list[SubjectRef]:
        """Return the subjects, after importing each on a rank of its own.

        Raises:
            UsageError: a name leads nowhere, or to nothing that can be tested.
        """
        if self._known is not None:
            return list(self._known)
        references = self._references()
        if not references:
            if self.options.setup:  # with a subject, its import calls the setup
                self._preflight(None)
            return reference_subjects(self.options.spec)
        return _labelled([self._preflighted(reference) for reference in references])

    @property
    def specs(self) -> tuple[str, ...]:
        """Return the specs of the subjects, each once."""
        return tuple(dict.fromkeys(subject.spec for subject in self.subjects))

    def name_subjects_unchecked(self) -> None:
        """Keep only the names of the subjects: the run was interrupted while they were imported."""
        if "subjects" not in vars(self):
            options, spec = self.options, self.options.spec or clauses.CONTRACT
            named = [SubjectRef(name, spec, options.inputs, types=options.types) for name in self._references()]
            self._known = _labelled(named) or None

    def _references(self) -> list[str]:
        return list(dict.fromkeys([*self.options.subjects, *registered(self.options.packages)]))

    def _preflighted(self, reference: str) -> SubjectRef:
        subject = SubjectRef(reference, self.options.spec or "", self.options.inputs, types=self.options.types)
        first = self._preflight(subject)
        # A subject whose import raises or hangs is judged like any other: its tests report that.
        spec = first.said if first.outcome == "pass" else self.options.spec or clauses.CONTRACT
        found = replace(subject, spec=spec, ranks=first.ranks)
        self.expect_fitting_types(found, first.types)
        return found

    def expect_samples(self, subject: SubjectRef) -> None:
        """Check that a subject has samples, on a rank of its own.

        Raises:
            UsageError: it has none that can be used.
        """
        self._preflight(subject)

    def _preflight(self, subject: SubjectRef | None) -> Preflight:
        """Import a subject, or call the user's setup, on a rank of its own.

        Raises:
            UsageError: it cannot be tested.
        """
        found = preflight(self.pool, subject)
        if found.outcome == BAD_SUBJECT:
            raise UsageError(found.said)
        return found

    def expect_fitting_types(self, subject: SubjectRef, types: str) -> None:
        """Check that a call returns as many tensors as the types of a subject name.

        Raises:
            UsageError: it returns more or fewer.
        """
        if not types or len(parse(types).results) == 1:
            return  # one type stands for any number of results
        for size in subject.worlds(self.options.ranks):
            wrong = "" if size == 1 or self._missing(size, True) else misfit(self.pool, subject, size)
            if wrong:
                raise UsageError(f"{subject.label or subject.reference} in a world of {size} ranks: {wrong}")

    @cached_property
    def tests(self) -> list[PlannedTest]:
        """Plan every test, in the order in which they run."""
        catalog.suite()  # is read while the forkserver imports torch; the subjects' specs are known only then
        planned = plan(promised_tests(*self.specs), clauses.registry(*self.specs), self.subjects, self.options.ranks)
        where = self.options.device_arguments
        tests = without_compiler(planned, self.options.compile, is_simulated(self.options.backend))
        return [replace(test, where=where) for test in self.with_missing_hardware(tests)]

    def with_missing_hardware(self, tests: Iterable[PlannedTest]) -> list[PlannedTest]:
        """Add to tests why they cannot run here, if their world cannot be made."""
        return [replace(test, why_not=test.why_not or self._missing(test.size, test.group)) for test in tests]

    def _missing(self, size: int, group: bool) -> str:
        """Say why a world of this size cannot run here; empty if it can."""
        if self.cluster and size > self.cluster.launch.size:
            return f"needs {size} ranks; {self.cluster.launch.size} processes were launched"
        backend, device = self.options.backend, self.options.device
        if is_simulated(backend):
            return ""
        if (backend, device) == ("gloo", "cpu"):  # without waiting for torch, which is being imported elsewhere
            return no_such_interface() if group else ""
        self.forkserver.wait()
        hardware = self.forkserver.hardware
        if not self.cluster:
            return missing_here(size, group, backend=backend, device=device, hardware=hardware)
        check_names(backend, device, hardware)
        places = self.cluster.places(device)
        return missing(size, group, backend=backend, device=device, hardware=hardware, places=places)

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Describe the environment of the run, for the report."""
        self.forkserver.wait()
        options, hardware = self.options, self.forkserver.hardware
        kind = options.device.partition(":")[0]
        devices = _described(hardware, kind) if kind != "cpu" else {}
        return {
            **self.forkserver.environment,
            "nccl": ".".join(map(str, hardware.nccl)),
            **devices,
            **environment_of(options.backend, options.device, options.ranks),
            **(self.cluster.described if self.cluster else {}),
        }

    def run(self, tests: Sequence[PlannedTest]) -> Iterator[TestOutcome]:
        """Run tests one after the other, and yield each outcome."""
        yield from outcomes_of(self.pool, tests)

    def report(self, tests: Sequence[PlannedTest], outcomes: Sequence[TestOutcome], **more: Any) -> Report:
        """Judge the planned tests; see :func:`report_on`."""
        return report_on(tests, outcomes, self.subjects, self.environment, **more)


def outcomes_of(
    pool: Pool, tests: Sequence[PlannedTest], wanted: Callable[[PlannedTest], bool] = lambda test: True
) -> Iterator[TestOutcome]:
    """Run tests one after the other on a pool's ranks, and yield each outcome.

    Args:
        pool: the ranks.
        tests: the planned tests, in order.
        wanted: called before each test, when the outcomes of earlier tests are known.
    """
    pool.look_ahead(tests)
    for test in tests:
        if wanted(test):
            yield pool.run(test)


def _described(hardware: Hardware, kind: str) -> dict[str, str]:
    """Describe the accelerators of a run, for the report."""
    gpus = str(len(hardware.accelerators.get(kind, ())))
    return {"accelerator": hardware.models.get(kind, ""), "gpus": gpus, "driver": hardware.driver}


def _labelled(subjects: list[SubjectRef]) -> list[SubjectRef]:
    """Give each subject a name of its own."""
    seen = Counter(subject.reference for subject in subjects)
    return [
        replace(
            subject,
            label=subject.reference if seen[subject.reference] == 1 else f"{subject.reference} ({subject.spec})",
        )
        for subject in subjects
    ]
