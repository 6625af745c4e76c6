"""End a pytest run: show what broke a clause in full, and each consequence in one line.

Whether a failure follows from another one is known when all tests have run, which is before pytest prints any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from conformance.core.clauses import registry
from conformance.core.outcomes import BROKEN, TestOutcome
from conformance.core.output import shown
from conformance.core.prose import counted
from conformance.plugin.stash import SESSION
from conformance.report.consequences import cannot_be_judged, consequences_of, in_order
from conformance.report.failures import failures
from conformance.report.model import ClauseResult, SubjectResult
from conformance.report.verdicts import judge

if TYPE_CHECKING:
    import pytest

_OVERRULED = "rerun"  # by a later run of the same test, as pytest-rerunfailures has it


def fold(reporter: pytest.TerminalReporter) -> list[str]:
    """Shorten the failures that follow from another one, before pytest prints them; their number stays.

    Returns:
        The lines for the end of the run; none if every failure is shown in full.
    """
    failed = {outcome.nodeid: report for outcome, report in _told(reporter, ["failed"])}
    if not failed:
        return []
    every = _told(reporter, [category for category in reporter.stats if category != _OVERRULED])
    session = reporter.config.stash[SESSION]
    judged = judge([outcome for outcome, _ in every], (), session.subjects, registry(*session.specs), {})
    said: list[str] = []
    for part in judged.parts:
        short = {test: words for test, words in _short(part) if test in failed}
        for test, words in short.items():
            failed[test].longrepr = shown(words)
        said += _causes(part) if short else ()
    return said


def _told(reporter: pytest.TerminalReporter, categories: Iterable[str]) -> Iterator[tuple[TestOutcome, Any]]:
    """Yield the suite's tests in these categories of pytest, each with its outcome."""
    for category in categories:
        for report in reporter.stats.get(category, ()):
            if hasattr(report, "conformance"):
                yield TestOutcome.from_text(report.conformance), report


def _broken(part: SubjectResult) -> list[ClauseResult]:
    return in_order(clause for clause in part.clauses if clause.affects_verdict)


def _short(part: SubjectResult) -> Iterator[tuple[str, str]]:
    """Yield the node ids of tests that need not be shown in full, and the line for each."""
    for cause in _broken(part):
        for failure in failures(cause):
            for test in failure.alike:
                yield test.nodeid, f"as in {_name(failure.test)}: {cause.id} ({cause.level})"
        for clause in consequences_of(cause, part.clauses):
            line = f"consequence of {cause.id}: {clause.id} ({clause.level}) was not judged"
            yield from ((test.nodeid, line) for test in clause.tests if test.outcome in BROKEN)


def _causes(part: SubjectResult) -> Iterator[str]:
    """Yield the broken clauses of one subject, and how much follows from them."""
    broken = _broken(part)
    follow = sum(len(consequences_of(cause, part.clauses)) for cause in broken)
    found = f"{counted(len(broken), 'cause')}, {counted(follow, 'consequence')}"
    yield f"{part.subject or 'PyTorch itself'}: {cannot_be_judged(part.clauses) or found}"
    for cause in broken:
        yield f"  {cause.id} ({cause.level}): {_name(failures(cause)[0].test)}"


def _name(test: TestOutcome) -> str:
    return test.nodeid.split("::", 1)[-1]
