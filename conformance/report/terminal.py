"""The report on a terminal, for the author of the subject: what broke, where, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from conformance.core.outcomes import TestOutcome
from conformance.report.failures import (
    Accused,
    Failure,
    by_cause,
    failures,
    how_it_ended,
    last_words,
    story,
)
from conformance.report.model import LEVELS, ClauseResult, Report, SubjectResult, overall
from conformance.report.sheet import Sheet, listed, shown, terminal
from conformance.report.text import address, one_line

__all__ = ["STYLES", "show", "terminal"]

STYLES = {
    "conforms": "bold green",
    "deviates": "bold yellow",
    "incomplete": "bold magenta",
    "fails": "bold red",
}
_WIDEST = max(map(len, STYLES))
_MANY = 3  # failures of one clause told in full


def show(report: Report, console: Console, verbose: bool = False) -> None:
    """Print a report.

    Args:
        report: what to print.
        console: where; made by :func:`terminal`.
        verbose: list the clauses that are not applicable, with the reasons.
    """
    sheet = Sheet(console)
    sheet.blank()
    if report.interrupted:
        sheet.say("The run was interrupted; what had not been run by then counts as skipped.", "bold magenta")
    for note in report.notes:
        sheet.say(note, "yellow")
    if report.engine:
        sheet.say(_engine_line(report), STYLES[overall(report.engine)])
    for subject in report.subjects:
        _subject_line(sheet, subject)
    for part in report.parts:
        _part(sheet, part, verbose)
    _closing(sheet, report)


def _engine_line(report: Report) -> str:
    held = sum(clause.verdict == "pass" for clause in report.engine)
    applicable = sum(clause.verdict != "not-applicable" for clause in report.engine)
    version = report.environment.get("torch", "")
    return f"PyTorch {version} keeps {held} of {applicable} engine clauses"


def _subject_line(sheet: Sheet, subject: SubjectResult) -> None:
    """The verdict, and of the clauses of each level that apply how many were kept."""
    verdict = (f"{subject.verdict:<{_WIDEST}}  ", STYLES[subject.verdict])
    name = (shown(f"{subject.subject} ({subject.spec})", 300), "bold")
    counts = [_count(level, [clause for clause in subject.clauses if clause.level == level]) for level in LEVELS]
    other = sum(clause.verdict == "not-applicable" for clause in subject.clauses)
    counts += [Text(f"not applicable {other}", "dim")] if other else []
    sheet.pair(Text.assemble(verdict, name), Text("  ").join(filter(None, counts)), indent=_WIDEST + 2)


def _count(level: str, clauses: Sequence[ClauseResult]) -> Text:
    applicable = [clause for clause in clauses if clause.verdict != "not-applicable"]
    if not applicable:
        return Text()
    kept = sum(clause.verdict == "pass" for clause in applicable)
    short = "magenta" if kept < len(applicable) else ""
    style = "red" if any(clause.counts for clause in applicable) else short
    return Text(f"{level} {kept}/{len(applicable)}", style)


def _part(sheet: Sheet, part: SubjectResult, verbose: bool) -> None:
    """Everything about one subject, or about the engine, below its line at the top."""
    name = f"{part.subject} ({part.spec})" if part.subject else "PyTorch itself"
    broken = [clause for level in LEVELS for clause in part.clauses if clause.level == level and clause.counts]
    if broken:
        sheet.blank()
        sheet.say(f"{name}: {len(broken)} broken {_clauses(broken)}", "bold")
    for clause, others in by_cause(broken):
        _clause(sheet, clause, others)
    known = [clause for clause in part.clauses if clause.broken and clause.expected]
    if known:
        sheet.blank()
        sheet.say(f"{name}: {len(known)} broken as expected", "yellow")
    for clause in known:
        why = f"{clause.expected.reason} {clause.expected.link}".rstrip() if clause.expected else ""
        sheet.say(f"{clause.id}: {why}", indent=2)
    _reasons(sheet, name, "skipped", part.clauses)
    if verbose:
        _reasons(sheet, name, "not-applicable", part.clauses)


def _clause(sheet: Sheet, clause: ClauseResult, others: Sequence[ClauseResult]) -> None:
    """One broken clause: its text, which ranks, what actual, the likely cause, a command, the page to read."""
    sheet.blank()
    style = "bold red" if clause.level == "must" else "bold yellow"
    sheet.say(f"{clause.verdict.upper()}  {clause.id}  ({clause.level})", style)
    sheet.say(clause.text, indent=2)
    told = failures(clause)
    for failure in told[:_MANY]:
        _failure(sheet, failure)
    if len(told) > _MANY:
        sheet.say(f"{len(told) - _MANY} more ways in which it failed: see --report", "dim", 2)
    if others:
        names = listed(other.id for other in others)
        sheet.say(f"{len(others)} more {_clauses(others)}: {names}", indent=2, label="breaks too ")
    sheet.command("read       ", address(clause.page), indent=2)


def _failure(sheet: Sheet, failure: Failure) -> None:
    test = failure.test
    guilty = [who for who in failure.accused if who.witness.outcome == test.outcome]
    for who in guilty[:2]:
        _accused(sheet, who, test, failure.likely)
    for who in [*guilty[2:], *(who for who in failure.accused if who not in guilty)]:
        sheet.say(f"{who.named(test.world)}: {who.witness.outcome}: {one_line(who.witness.message)}", "dim", 2)
    if not guilty:
        sheet.say(f"in {_short(test)}", "cyan", 2)
    if not any(who.witness.message for who in guilty):
        sheet.quote(test.message or test.outcome, indent=2)
    if failure.likely:
        sheet.say(failure.likely, "bold", 2, label="looks like ")
    if test.reproduce:
        sheet.command("reproduce  ", test.reproduce, indent=2)
    if failure.alike:
        names = listed(_short(other) for other in failure.alike)
        sheet.say(f"{len(failure.alike)} more: {names}", "dim", 2, label="alike in   ")


def _accused(sheet: Sheet, who: Accused, test: TestOutcome, likely: str) -> None:
    ended = how_it_ended(who.witness)
    sheet.say(f"{who.named(test.world)}{', ' * bool(ended)}{ended}, in {_short(test)}", "cyan", 2)
    sheet.quote(story(who, likely), indent=2)
    if test.outcome in ("crash", "timeout"):
        for title, text in last_words(who.witness):
            sheet.say(f"{title}:", "dim", 2)
            sheet.quote(text, indent=4)


def _reasons(sheet: Sheet, name: str, verdict: str, clauses: Iterable[ClauseResult]) -> None:
    """Clauses of which nothing was learnt, under the reasons for it."""
    grouped: dict[str, list[str]] = {}
    for clause in clauses:
        if clause.verdict == verdict:
            grouped.setdefault(clause.reason or "no reason given", []).append(clause.id)
    if not grouped:
        return
    total = sum(map(len, grouped.values()))
    sheet.blank()
    style = "magenta" if verdict == "skipped" else "dim"
    sheet.say(f"{name}: {total} {verdict.replace('-', ' ')}", style)
    for reason, ids in grouped.items():
        sheet.say(f"{reason}: {listed(ids)}", indent=2, label=f"{len(ids):>3}  ")


def _closing(sheet: Sheet, report: Report) -> None:
    """The last lines: whoever scrolled past the failures sees the verdicts again."""
    if not any(clause.counts for part in report.parts for clause in part.clauses):
        return
    sheet.blank()
    sheet.say("conformance explain CLAUSE prints a clause in full and which tests assert it.", "dim")
    for part in report.parts:
        name = part.subject or f"PyTorch {report.environment.get('torch', '')}"
        counted = sum(clause.counts for clause in part.clauses)
        sheet.say(f"{part.verdict}: {name}, {counted} broken", STYLES[part.verdict])


def _short(test: TestOutcome) -> str:
    return test.nodeid.rsplit("/", 1)[-1]


def _clauses(some: Sequence[ClauseResult]) -> str:
    return "clause" if len(some) == 1 else "clauses"
