"""A run from its options to its items: the pristine process started, the subjects looked at, the tests planned."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from conformance.core import catalog, clauses
from conformance.core.catalog import Test
from conformance.core.errors import UsageError
from conformance.core.options import Options, checked
from conformance.core.plan import PlannedTest, SubjectRef, plan
from conformance.ranks.client import Forkserver
from conformance.ranks.devices import missing
from conformance.ranks.group import RankGroup
from conformance.ranks.pool import Pool, Settings, search_path

if TYPE_CHECKING:
    from conformance.core.outcomes import TestOutcome
    from conformance.ranks.cluster.supervisor import Cluster
    from conformance.report.model import Report


def suite_version() -> str:
    """The installed version of this package."""
    try:
        return version("autograd-conformance")
    except PackageNotFoundError:
        return "0"


def promised_tests() -> tuple[Test, ...]:
    """The suite's tests of what the installed PyTorch promises: some clauses came with a release."""
    from conformance.core.versions import matches_version

    try:
        torch = version("torch")  # what is installed says so without being imported
    except PackageNotFoundError:
        torch = ""
    registry = clauses.registry()
    return tuple(test for test in catalog.suite() if matches_version(registry[test.clause].versions, torch))


def reference_subjects() -> list[SubjectRef]:
    """The reference: every documented class, in the documented form and in the separate one."""
    homes = {clause.spec: clause.module for clause in clauses.registry().values() if clause.spec != "Function"}
    return [
        SubjectRef(f"{module}:{spec}{form}", spec, None, f"{module}:{spec}{form}")
        for spec, module in homes.items()
        for form in ("", "Separate")
    ]


class Session:
    """One run. Torch is imported in another process while this one goes on reading."""

    def __init__(
        self,
        options: Options,
        subjects: Sequence[SubjectRef] | None = None,
        template: Forkserver | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.options = checked(options, clauses.specs())
        self.template = template or Forkserver()
        self.cluster = cluster
        self._known = subjects

    @cached_property
    def pool(self) -> Pool:
        """What the items run on."""
        options = self.options
        device = "cpu" if self._missing(1, False) else options.device  # then nothing runs, but subjects are looked at
        settings = Settings(options.backend, device, options.timeout, search_path(), options.setup)
        return Pool(self.template, settings, self.cluster.rank_group if self.cluster else RankGroup)

    @cached_property
    def subjects(self) -> list[SubjectRef]:
        """What is under test, once each has been imported on a rank of its own.

        Raises:
            UsageError: a name leads nowhere, or to nothing that can be tested.
        """
        if self._known is not None:
            return list(self._known)
        if not self.options.subjects:
            wanted = reference_subjects()
            return [subject for subject in wanted if self.options.spec in {None, subject.spec}]
        return _labelled([self._looked_at(reference) for reference in dict.fromkeys(self.options.subjects)])

    def take_unseen(self) -> None:
        """Take the subjects as they were named: the run was called off while they were being looked at."""
        if "subjects" not in vars(self):
            spec = self.options.spec or "Function"
            references = dict.fromkeys(self.options.subjects)
            self._known = _labelled([SubjectRef(name, spec, self.options.inputs) for name in references]) or None

    def _looked_at(self, reference: str) -> SubjectRef:
        subject = SubjectRef(reference, self.options.spec or "", self.options.inputs)
        outcome, said = self.pool.preflight(subject)
        if outcome == "bad-subject":
            raise UsageError(said)
        # A subject whose import raises or never ends is judged like any other: its tests say so.
        spec = said if outcome == "pass" else self.options.spec or "Function"
        return replace(subject, spec=spec)

    @cached_property
    def items(self) -> list[PlannedTest]:
        """Every test that the run owes, in the order they run."""
        planned = plan(promised_tests(), clauses.registry(), self.subjects, self.options.ranks)
        return [replace(item, why_not=item.why_not or self._missing(item.size, item.group)) for item in planned]

    def _missing(self, size: int, group: bool) -> str:
        """Why a world of some size cannot be had here; empty where it can."""
        if self.cluster and size > self.cluster.launch.size:
            return f"needs {size} ranks; {self.cluster.launch.size} processes were launched"
        options = self.options
        if options.device == "cpu" and options.backend == "gloo":
            return ""  # without waiting for torch, which is being imported elsewhere
        self.template.wait()
        facts = self.template.environment
        gpus = self.cluster.gpus if self.cluster else [1] * int(facts.get("gpus", 0))
        nccl = bool(facts.get("nccl"))
        return missing(size, group, backend=options.backend, device=options.device, nccl=nccl, gpus=gpus)

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Where the run takes place, for the report."""
        self.template.wait()
        options = self.options
        return {
            **self.template.environment,
            "python": sys.version.split()[0],
            "platform": sys.platform,
            "backend": options.backend,
            "device": options.device,
            "ranks": list(options.ranks),
            **(self.cluster.described if self.cluster else {}),
        }

    def run(self, items: Sequence[PlannedTest]) -> list[TestOutcome]:
        """Run some of the items, one after the other."""
        self.pool.look_ahead(items)
        return [self.pool.run(item) for item in items]

    def report(
        self,
        items: Sequence[PlannedTest],
        outcomes: Sequence[TestOutcome],
        selected: Collection[str] | None = None,
        **more: Any,
    ) -> Report:
        """The verdicts on what was planned.

        Args:
            items: everything that was owed; one without an outcome counts as not run.
            outcomes: what came of them.
            selected: the node ids that were to be run at all, where that was not everything.
            **more: what :func:`~conformance.report.verdicts.judge` takes besides.
        """
        from conformance.report.verdicts import Planned, SubjectInfo, judge

        left_out = {item.nodeid for item in items} - set(selected) if selected is not None else set()
        return judge(
            outcomes,
            [
                Planned(
                    item.nodeid,
                    item.test.clause,
                    item.label,
                    item.spec,
                    item.size,
                    "not selected" if item.nodeid in left_out else "",
                )
                for item in items
            ],
            [SubjectInfo(subject.label, subject.spec) for subject in self.subjects],
            clauses.registry(),
            self.environment,
            suite={"version": suite_version(), "clauses_sha256": clauses.digest()},
            **more,
        )

    def close(self) -> None:
        """End every process of the run."""
        if "pool" in vars(self):
            self.pool.close()
        self.template.close()


def _labelled(subjects: list[SubjectRef]) -> list[SubjectRef]:
    """Name each subject so that no two are called alike."""
    seen = Counter(subject.reference for subject in subjects)
    return [
        replace(
            subject,
            label=subject.reference if seen[subject.reference] == 1 else f"{subject.reference} ({subject.spec})",
        )
        for subject in subjects
    ]
