"""Report on a run: its planned tests, their outcomes, and its environment."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conformance.core import clauses
from conformance.core.homes import Home, outside
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.core.versions import suite_version

if TYPE_CHECKING:
    from conformance.core.outcomes import TestOutcome
    from conformance.report.model import Report, SpecFromOutside


def report_on(
    tests: Sequence[PlannedTest],
    outcomes: Sequence[TestOutcome],
    subjects: Sequence[SubjectRef],
    environment: Mapping[str, Any],
    *,
    selected: Collection[str] | None = None,
    **more: Any,
) -> Report:
    """Judge the planned tests.

    Args:
        tests: all planned tests; one without an outcome counts as not run.
        outcomes: their outcomes.
        subjects: the subjects under test.
        environment: the environment of the run.
        selected: the node ids that were selected, if not all were.
        **more: what :func:`~conformance.report.verdicts.judge` takes besides.
    """
    from conformance.report.verdicts import judge

    specs = [subject.spec for subject in subjects]
    return judge(
        outcomes,
        tests,
        subjects,
        clauses.registry(*specs),
        environment,
        suite={"version": suite_version(), "clauses_sha256": clauses.digest()},
        specs=tuple(map(_from_outside, outside(specs))),
        selected=selected,
        **more,
    )


def _from_outside(home: Home) -> SpecFromOutside:
    from conformance.report.model import SpecFromOutside

    own = [clause for clause in clauses.registry(home.name).values() if clause.spec == home.name]
    return SpecFromOutside(home.name, home.distribution, home.version, clauses.digest_of(own))


def environment_of(backend: str, device: str, ranks: Sequence[int]) -> dict[str, Any]:
    """Describe the environment of a run, as far as it is known without PyTorch."""
    return {
        "python": sys.version.split()[0],
        "platform": sys.platform,
        "backend": backend,
        "device": device,
        "ranks": list(ranks),
    }
