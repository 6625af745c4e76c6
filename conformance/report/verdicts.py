"""What all outcomes on all ranks say of every clause, and what its clauses say of a subject.

The rule everything here serves: what was not run is never counted as passed. A test passes when each of its
ranks said so, a clause when each of its tests that applies did; whatever is missing shows as ``skipped``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conformance.core.errors import UsageError
from conformance.core.outcomes import OUTCOMES, TestOutcome, worst
from conformance.core.versions import matches_version
from conformance.report.model import VERDICTS, ClauseResult, Expected, Report, SubjectResult, overall, page_of
from conformance.report.text import one_line

if TYPE_CHECKING:
    from conformance.core.clauses import Clause

__all__ = [
    "ClauseResult",
    "Expected",
    "Planned",
    "Report",
    "SubjectInfo",
    "SubjectResult",
    "UsageError",
    "clause_verdict",
    "exit_status",
    "judge",
    "overall",
    "page_of",
    "settled",
]

_VERDICT_OF = {"skip": "skipped"}
_NO_TEST = "no test of this run is about it"


@dataclass(frozen=True)
class SubjectInfo:
    """Which subject: what it is called in reports, and the spec it is held against."""

    label: str
    spec: str


@dataclass(frozen=True)
class Planned:
    """A test that this run owes; ``reason``: why it is known not to run, such as ``not selected by -k``."""

    nodeid: str
    clause: str
    subject: str
    spec: str
    world: int = 1
    reason: str = ""


def judge(
    tests: Sequence[TestOutcome],
    planned: Sequence[Planned],
    subjects: Sequence[SubjectInfo],
    clauses: Mapping[str, Clause],
    environment: Mapping[str, Any],
    *,
    suite: Mapping[str, Any] | None = None,
    engine: bool = True,
    missing: str = "not run",
    started: str = "",
    seconds: float = 0.0,
    interrupted: bool = False,
) -> Report:
    """Turn outcomes into a report.

    Args:
        tests: what was run; a ``nodeid`` may come twice, and then the worse outcome counts.
        planned: what should have been run. A planned test that gave nothing counts as skipped.
        subjects: what was tested; each gets a verdict even when nothing of it was run.
        clauses: the registry.
        environment: ``torch``, ``python``, ``platform``, ``backend``, ``device``, ``ranks``.
        suite: ``version`` and ``clauses_sha256``.
        engine: whether PyTorch itself was to be tested too.
        missing: why a planned test without an outcome was not run.
        started: when, in ISO 8601.
        seconds: how long it took.
        interrupted: whether somebody stopped the run.

    Raises:
        ValueError: an outcome or a plan names an unknown clause or subject; the suite itself is broken.
    """
    ran = {(test.subject, test.nodeid) for test in tests}
    evidence = [settled(test) for test in tests]
    evidence += [_not_run(plan, missing) for plan in planned if (plan.subject, plan.nodeid) not in ran]
    homes = {(subject.label, subject.spec) for subject in subjects}
    for test in evidence:
        if test.clause not in clauses:
            raise ValueError(f"{test.nodeid} asserts a clause that no docstring states: {test.clause}")
        if test.subject and (test.subject, test.spec) not in homes:
            raise ValueError(f"{test.nodeid} is about {test.subject} ({test.spec}), no subject of this run")
    version = str(environment.get("torch", ""))

    def results(own: Iterable[TestOutcome], owed: Iterable[str]) -> tuple[ClauseResult, ...]:
        own = tuple(own)
        wanted = {*owed, *(test.clause for test in own)}
        return tuple(_result(clauses[name], own, version) for name in clauses if name in wanted)

    about_engine = [name for name, clause in clauses.items() if engine and clause.party == "engine"]
    return Report(
        suite=dict(suite or {}),
        environment=dict(environment),
        engine=results((test for test in evidence if not test.subject), about_engine),
        subjects=tuple(
            _subject(info, results((test for test in evidence if _about(test, info)), owed_by(info.spec, clauses)))
            for info in dict.fromkeys(subjects)
        ),
        started=started,
        seconds=seconds,
        interrupted=interrupted,
    )


def owed_by(spec: str, clauses: Mapping[str, Clause]) -> tuple[str, ...]:
    """The ids of the clauses a subject of this spec owes: those of the contract and those of the spec."""
    own = ("Function", spec)
    return tuple(name for name, clause in clauses.items() if clause.party == "function" and clause.spec in own)


def settled(test: TestOutcome) -> TestOutcome:
    """The test with the worst outcome among its ranks; a pass that some rank did not give is an error."""
    said = [test.outcome, *(rank.outcome for rank in test.ranks)]
    joined = worst([word if word in OUTCOMES else "error" for word in said])
    silent = sorted(set(range(test.world)) - {rank.rank for rank in test.ranks})
    if silent and (joined == "pass" or (joined == "not-applicable" and test.ranks)):
        names = ", ".join(map(str, silent))
        return replace(test, outcome="error", message=f"no outcome came from rank {names} of {test.world}")
    if joined == test.outcome:
        return test
    guilty = next((rank for rank in test.ranks if rank.outcome == joined), None)
    said_by = f"rank {guilty.rank}: {guilty.message}" if guilty else f"outcome {test.outcome!r} is not known"
    return replace(test, outcome=joined, message=test.message or said_by)


def clause_verdict(tests: Iterable[TestOutcome]) -> str:
    """The verdict on a clause: the worst outcome of its tests, where a pass outweighs a not-applicable.

    >>> clause_verdict([])
    'skipped'
    """
    verdicts = [_VERDICT_OF.get(test.outcome, test.outcome) for test in tests]
    return min(verdicts, key=VERDICTS.index) if verdicts else "skipped"


def exit_status(report: Report, strict: bool = False, interrupted: bool = False, broken: bool = False) -> int:
    """The status a command ends with.

    Args:
        report: what was found out.
        strict: whether a broken should or quality clause counts too.
        interrupted: whether the run was stopped.
        broken: whether the suite itself broke.
    """
    if broken:
        return 3
    if interrupted or report.interrupted:
        return 2
    if not report.parts or any(subject.verdict in ("fails", "incomplete") for subject in report.subjects):
        return 1
    if strict and any(clause.counts for part in report.parts for clause in part.clauses):
        return 1
    # What PyTorch could not be tested for here says nothing about a subject: it counts under --strict alone.
    bad = ("fails", "incomplete") if strict or not report.subjects else ("fails",)
    return int(bool(report.engine) and overall(report.engine) in bad)


def _about(test: TestOutcome, info: SubjectInfo) -> bool:
    return (test.subject, test.spec) == (info.label, info.spec)


def _subject(info: SubjectInfo, clauses: tuple[ClauseResult, ...]) -> SubjectResult:
    return SubjectResult(info.label, info.spec, overall(clauses), clauses)


def _not_run(plan: Planned, missing: str) -> TestOutcome:
    reason = plan.reason or missing
    return TestOutcome(plan.nodeid, plan.clause, plan.subject, plan.spec, plan.world, "skip", 0.0, reason=reason)


def _result(clause: Clause, tests: Iterable[TestOutcome], torch: str) -> ClauseResult:
    from conformance.core.clauses import text_hash

    own = tuple(test for test in tests if test.clause == clause.id)
    verdict, reason = clause_verdict(own), _reason(own)
    if not own and not matches_version(clause.versions, torch):
        verdict, reason = "not-applicable", f"promised for {clause.versions} alone"
    return ClauseResult(
        clause.id,
        clause.level,
        verdict,
        reason,
        own,
        text=clause.text,
        text_sha256=text_hash(clause),
        page=page_of(clause),
    )


def _reason(tests: Sequence[TestOutcome]) -> str:
    """What the tests that decided the verdict give as their reason, each once."""
    if not tests:
        return _NO_TEST
    verdict = clause_verdict(tests)
    deciding = [test for test in tests if _VERDICT_OF.get(test.outcome, test.outcome) == verdict != "pass"]
    said = dict.fromkeys(filter(None, (one_line(test.reason or test.message) for test in deciding)))
    return "; ".join(list(said)[:3])
