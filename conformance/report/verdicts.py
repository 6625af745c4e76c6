"""Verdicts on clauses, from the outcomes on all ranks, and on subjects, from their clauses.

The rule everything here serves: what was not run is never counted as passed. A clause passes if each of its tests that
apply has passed; a missing test shows as ``skipped``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from conformance.core.clauses import CONTRACT, Clause, text_hash
from conformance.core.errors import BROKE, FAILS, INTERRUPTED, OK
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.core.versions import matches_version
from conformance.report.consequences import with_consequences
from conformance.report.model import (
    NOT_SELECTED,
    VERDICTS,
    ClauseResult,
    ClauseVerdict,
    Report,
    SpecFromOutside,
    SubjectResult,
    Suite,
    overall,
    page_of,
)
from conformance.report.text import one_line

_NO_TEST = "no test of this run is about it"
_Evidence = Mapping[tuple[str, str], Mapping[str, Sequence[TestOutcome]]]


def judge(
    outcomes: Sequence[TestOutcome],
    planned: Sequence[PlannedTest],
    subjects: Sequence[SubjectRef],
    registry: Mapping[str, Clause],
    environment: Mapping[str, Any],
    *,
    suite: Suite | None = None,
    specs: tuple[SpecFromOutside, ...] = (),
    engine: bool = True,
    selected: Collection[str] | None = None,
    missing: str = "not run",
    started: str = "",
    engine_tested: str = "",
    seconds: float = 0.0,
    interrupted: bool = False,
) -> Report:
    """Turn outcomes into a report.

    Args:
        outcomes: what was run; a ``nodeid`` may come twice, and then the worse outcome counts.
        planned: what should have been run. A planned test without an outcome counts as skipped.
        subjects: what was tested; each gets a verdict, even if none of its tests ran.
        registry: the clauses by id.
        environment: ``torch``, ``python``, ``platform``, ``backend``, ``device``, ``ranks``.
        suite: ``version`` and ``clauses_sha256``.
        specs: those of the subjects that another distribution brings.
        engine: whether PyTorch itself was to be tested too.
        selected: the node ids of the selected tests, if not all were.
        missing: why a selected test without an outcome was not run.
        started: when, in ISO 8601.
        engine_tested: when PyTorch itself was tested, if an earlier run did that.
        seconds: how long it took.
        interrupted: whether the user stopped the run.

    Raises:
        ValueError: an outcome or a plan names an unknown clause or subject; the suite itself is broken.
    """
    ran = {(outcome.subject, outcome.nodeid) for outcome in outcomes}
    unrun = [test for test in planned if (test.label, test.nodeid) not in ran]
    left_out = {test.nodeid for test in unrun if selected is not None and test.nodeid not in selected}
    skipped = [_not_run(test, NOT_SELECTED if test.nodeid in left_out else missing) for test in unrun]
    evidence = _by_clause([*outcomes, *skipped], subjects, registry)
    version = str(environment.get("torch", ""))

    def results(home: tuple[str, str], owed: Iterable[str]) -> tuple[ClauseResult, ...]:
        own = evidence.get(home, {})
        wanted = {*owed, *own}
        return with_consequences(
            [_result(clause, own.get(name, ()), version) for name, clause in registry.items() if name in wanted]
        )

    def result(subject: SubjectRef) -> SubjectResult:
        clauses = results((subject.label, subject.spec), owed_by(subject.spec, registry))
        return SubjectResult(subject.label, subject.spec, overall(clauses), clauses, subject.ranks)

    about_engine = [name for name, clause in registry.items() if engine and clause.party == "engine"]
    return Report(
        suite=suite or {"version": "", "clauses_sha256": ""},
        specs=specs,
        environment=dict(environment),  # type: ignore[arg-type]
        engine=results(("", ""), about_engine),
        subjects=tuple(map(result, dict.fromkeys(subjects))),
        started=started,
        engine_tested=engine_tested,
        seconds=seconds,
        interrupted=interrupted,
    )


def owed_by(spec: str, registry: Mapping[str, Clause]) -> tuple[str, ...]:
    """Return the ids of the clauses that a subject of this spec must keep: the contract's and the spec's."""
    own = (CONTRACT, spec)
    return tuple(name for name, clause in registry.items() if clause.party == "function" and clause.spec in own)


def clause_verdict(tests: Iterable[TestOutcome]) -> ClauseVerdict:
    """Judge a clause by the worst outcome of its tests; a pass outweighs a not-applicable.

    >>> clause_verdict([])
    'skipped'
    """
    return min(map(_verdict_of, tests), key=VERDICTS.index, default="skipped")


def exit_status(report: Report, strict: bool = False, broken: bool = False) -> int:
    """Return the exit status of a command.

    Args:
        report: what was found out.
        strict: whether a broken should or quality clause counts too.
        broken: whether the suite itself broke.
    """
    if broken:
        return BROKE
    if report.interrupted:
        return INTERRUPTED
    if not report.parts or any(subject.verdict in ("fails", "incomplete") for subject in report.subjects):
        return FAILS
    if strict and any(clause.affects_verdict for part in report.parts for clause in part.clauses):
        return FAILS
    # Clauses of PyTorch that could not be tested here say nothing about a subject: they count only with --strict.
    bad = ("fails", "incomplete") if strict or not report.subjects else ("fails",)
    return FAILS if report.engine and overall(report.engine) in bad else OK


def judged(clause: Clause, tests: Sequence[TestOutcome], torch: str) -> tuple[ClauseVerdict, str]:
    """Judge one clause by its tests alone, and give the reason."""
    if not tests and not matches_version(clause.versions, torch):
        return "not-applicable", f"promised for {clause.versions} alone"
    return clause_verdict(tests), _reason(tests)


def _by_clause(outcomes: Iterable[TestOutcome], subjects: Iterable[SubjectRef], registry: Collection[str]) -> _Evidence:
    """Group outcomes by subject and clause; the engine has an empty name."""
    homes = {(subject.label, subject.spec) for subject in subjects}
    found: defaultdict[tuple[str, str], defaultdict[str, list[TestOutcome]]]
    found = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        home = (outcome.subject, outcome.spec) if outcome.subject else ("", "")
        if outcome.clause not in registry:
            raise ValueError(f"{outcome.nodeid} asserts a clause that no docstring states: {outcome.clause}")
        if outcome.subject and home not in homes:
            raise ValueError(f"{outcome.nodeid} is about {outcome.subject} ({outcome.spec}), no subject of this run")
        found[home][outcome.clause].append(outcome)
    return found


def _not_run(test: PlannedTest, reason: str) -> TestOutcome:
    return TestOutcome(
        nodeid=test.nodeid,
        clause=test.test.clause,
        subject=test.label,
        spec=test.spec,
        world=test.size,
        outcome="skip",
        seconds=0.0,
        reason=reason,
    )


def _result(clause: Clause, tests: Sequence[TestOutcome], torch: str) -> ClauseResult:
    verdict, reason = judged(clause, tests, torch)
    return ClauseResult(
        id=clause.id,
        level=clause.level,
        verdict=verdict,
        reason=reason,
        tests=tuple(tests),
        text=clause.text,
        text_sha256=text_hash(clause),
        page=page_of(clause),
    )


def _verdict_of(test: TestOutcome) -> ClauseVerdict:
    return "skipped" if test.outcome == "skip" else test.outcome


def _reason(tests: Sequence[TestOutcome]) -> str:
    """Return the reasons of the tests that decided the verdict, each once; for a pass, what it leaves open."""
    if not tests:
        return _NO_TEST
    verdict = clause_verdict(tests)
    deciding = [test for test in tests if _verdict_of(test) == verdict]
    said = dict.fromkeys(filter(None, (one_line(test.reason or test.message, 300) for test in deciding)))
    return "; ".join(list(said)[:3])
