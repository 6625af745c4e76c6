"""Annotations for each broken clause beside a pull request on GitHub, and a summary of the job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from conformance.core.errors import UsageError
from conformance.core.output import visible
from conformance.core.prose import counted, prose
from conformance.report.consequences import consequences_of, in_order
from conformance.report.failures import failures, story
from conformance.report.model import ClauseResult, Report, SubjectResult
from conformance.report.text import one_line

#: Lines of a failure in an annotation: what was compared, the actual and the expected value, the likely cause.
_LINES = 8
_MARKDOWN = "\\`*_{}[]<>()#+-.!|~&@$:"


def publish(report: Report, file: IO[str], environ: Mapping[str, str] = os.environ) -> None:
    """Print annotations and add to the job's summary inside a GitHub action; elsewhere do nothing.

    Raises:
        UsageError: the summary cannot be written.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return
    for line in commands(report):
        print(line, file=file)
    place = environ.get("GITHUB_STEP_SUMMARY")
    if place:
        try:
            with Path(place).open("a", encoding="utf-8", errors="backslashreplace") as summary_file:
                summary_file.write(summary(report))
        except OSError as problem:
            raise UsageError(f"cannot write {place}: {problem.strerror}") from None


def commands(report: Report) -> Iterator[str]:
    """Yield workflow commands: errors for broken musts, warnings for other broken clauses, notices for notes."""
    for part in report.parts:
        for clause in in_order(part.clauses):
            if clause.is_unexpected:
                kind = {"must": "error", "may": "notice"}.get(clause.level, "warning")
                name = part.subject or "PyTorch"
                said = f"{prose(clause.text)}\n{_said(clause)}\n{_reproduce(clause)}".rstrip()
                yield f"::{kind} title={_property(f'{name}: {clause.id}')}::{_data(visible(said, 2000))}"


def summary(report: Report) -> str:
    """Write the job's summary in Markdown."""
    return "\n".join(_summary(report)) + "\n"


def _summary(report: Report) -> Iterator[str]:
    yield "## Conformance"
    yield ""
    yield "| subject | spec | verdict | kept | broken | skipped | not applicable |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for part in report.parts:
        verdicts = [clause.verdict for clause in part.clauses]
        counts = [verdicts.count("pass"), sum(clause.broken and not clause.is_note for clause in part.clauses)]
        counts += [verdicts.count("skipped"), verdicts.count("not-applicable")]
        cells = [_name(part), _markdown(report.titled(part.spec)), f"**{part.verdict}**", *map(str, counts)]
        yield f"| {' | '.join(cells)} |"
    for part in report.parts:
        for clause in in_order(part.clauses):
            if clause.is_unexpected:
                yield ""
                yield f"**{_markdown(clause.id)}** ({clause.level}, {clause.verdict}) {_name(part)}: "
                yield _markdown(one_line(clause.reason, 400))
                others = len(consequences_of(clause, part.clauses))
                if others:
                    yield f"Because of it {counted(others, 'more clause')} could not be judged."


def _name(part: SubjectResult) -> str:
    return _markdown(part.subject) if part.subject else "PyTorch"


def _said(clause: ClauseResult) -> str:
    """Return the message of the worst failure, with actual and expected value; the reason if no rank has a message."""
    said = next((story(who) for failure in failures(clause) for who in failure.accused), "")
    return "\n".join(said.splitlines()[:_LINES]) or clause.reason


def _reproduce(clause: ClauseResult) -> str:
    return next((test.reproduce for test in clause.tests if test.reproduce and test.outcome != "pass"), "")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(one_line(text)).replace(":", "%3A").replace(",", "%2C")


def _markdown(text: str) -> str:
    """Escape a text, so that Markdown shows it as it is; entities work in tables and outside them."""
    return "".join(f"&#{ord(sign)};" if sign in _MARKDOWN else sign for sign in visible(text).replace("\n", " "))
