"""The report on a terminal, for the author of the subject: what broke, where, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from conformance.core.outcomes import TestOutcome
from conformance.core.prose import counted, prose
from conformance.report.consequences import cannot_be_judged, consequences_of, in_order
from conformance.report.failures import (
    Accused,
    Failure,
    by_cause,
    failures,
    how_it_ended,
    last_words,
    story,
)
from conformance.report.model import ClauseResult, Report, SubjectResult
from conformance.report.sheet import Sheet, listed, terminal
from conformance.report.summary import STYLES, summarize
from conformance.report.text import address, one_line

__all__ = ["STYLES", "show", "terminal"]

_MANY = 3  # failures of one clause shown in full


def show(report: Report, console: Console, verbose: bool = False) -> None:
    """Print a report.

    Args:
        report: what to print.
        console: where; made by :func:`terminal`.
        verbose: list the clauses that are not applicable, with the reasons, and what of the samples was not judged.
    """
    sheet = Sheet(console)
    sheet.blank()
    if report.interrupted:
        sheet.say("The run was interrupted; what had not been run by then counts as skipped.", "bold magenta")
    summarize(sheet, report)
    for part in report.parts:
        _part(sheet, part, verbose)
    _closing(sheet, report)


def _part(sheet: Sheet, part: SubjectResult, verbose: bool) -> None:
    """Print everything about one subject, or about the engine."""
    name = f"{part.subject} ({part.spec})" if part.subject else "PyTorch itself"
    broken = in_order(clause for clause in part.clauses if clause.affects_verdict)
    notes = in_order(clause for clause in part.clauses if clause.is_note)
    if broken:
        sheet.blank()
        sheet.say(f"{name}: {cannot_be_judged(part.clauses) or counted(len(broken), 'broken clause')}", "bold")
    for clause, others in by_cause([*broken, *notes]):
        consequences = consequences_of(clause, part.clauses)
        if cannot_be_judged(part.clauses):
            _stopped(sheet, clause, consequences)
        else:
            _clause(sheet, clause, others, consequences)
    known = [clause for clause in part.clauses if clause.broken and clause.expected]
    if known:
        sheet.blank()
        sheet.say(f"{name}: {len(known)} broken as expected", "yellow")
    for clause in known:
        why = f"{clause.expected.reason} {clause.expected.link}".rstrip() if clause.expected else ""
        sheet.say(f"{clause.id}: {why}", indent=2)
        _unjudged(sheet, consequences_of(clause, part.clauses))
    _reasons(sheet, name, "skipped", part.clauses)
    if verbose:
        _reasons(sheet, name, "not-applicable", part.clauses)
        _left_open(sheet, name, part.clauses)


def _clause(
    sheet: Sheet, clause: ClauseResult, others: Sequence[ClauseResult], consequences: Sequence[ClauseResult]
) -> None:
    """Print one broken clause, or a note: its text, ranks, values, likely cause, a command, the page to read."""
    sheet.blank()
    style = {"must": "bold red", "may": "bold"}.get(clause.level, "bold yellow")
    word = "NOTE" if clause.is_note else clause.verdict.upper()
    sheet.say(f"{word}  {clause.id}  ({clause.level})", style)
    sheet.say(prose(clause.text), indent=2)
    every = failures(clause)
    told = _worth_telling(every)[: 1 if clause.is_note else _MANY]
    for failure in told:
        _failure(sheet, failure)
    left = len(every) - len(told)
    if left:
        sheet.say(f"{counted(left, 'more way')} in which it failed: see --report", "dim", 2)
    if others:
        names = listed(other.id for other in others)
        sheet.say(f"{counted(len(others), 'more clause')}: {names}", indent=2, label="likewise   ")
    _unjudged(sheet, consequences)
    sheet.command("read       ", address(clause.page), indent=2)


def _worth_telling(every: Iterable[Failure]) -> list[Failure]:
    """Return the first failure of each likely cause, and every failure without a known cause."""
    causes: set[str] = set()
    told = []
    for failure in every:
        if failure.likely not in causes:
            told.append(failure)
        causes |= {failure.likely} - {""}
    return told


def _stopped(sheet: Sheet, cause: ClauseResult, consequences: Sequence[ClauseResult]) -> None:
    """Print why a subject could not be judged at all; no clause is quoted, because none was tested."""
    sheet.blank()
    _failure(sheet, failures(cause)[0])
    sheet.say(f"{cause.id} ({cause.level}), broken", "dim", 2, "counted as ")
    _unjudged(sheet, consequences)


def _unjudged(sheet: Sheet, consequences: Sequence[ClauseResult]) -> None:
    """Print one line for the clauses that could not be judged because of a broken one."""
    if consequences:
        names = listed((clause.id for clause in consequences), 2)
        sheet.say(f"{counted(len(consequences), 'clause')} because of this: {names}", "dim", 2, "not judged ")


def _failure(sheet: Sheet, failure: Failure) -> None:
    test = failure.test
    guilty = [who for who in failure.accused if who.word in {test.outcome, "fail"}]
    told = _two_of(guilty)
    for who in told:
        _accused(sheet, who, test, failure.likely)
    for who in (who for who in failure.accused if who not in told):
        sheet.say(f"{who.named(test.world)}: {who.word}: {one_line(who.witness.message)}", "dim", 2)
    if not guilty:
        sheet.named("in", _short(test), "cyan", 2)
    if not any(who.witness.message for who in guilty):
        sheet.quote(test.message or test.outcome, indent=2)
    if failure.likely:
        sheet.say(failure.likely, "bold", 2, label="looks like ")
    if test.reproduce:
        sheet.command("reproduce  ", test.reproduce, indent=2)
    for number, other in enumerate(failure.alike[:_MANY]):
        sheet.command(" " * 11 if number else "alike in   ", _short(other), 2, "dim")
    if len(failure.alike) > _MANY:
        sheet.say(f"and {len(failure.alike) - _MANY} more", "dim", 13)


def _two_of(guilty: Sequence[Accused]) -> list[Accused]:
    """Return the first, and the first with another outcome, or else the second."""
    others = [who for who in guilty[1:] if who.word != guilty[0].word] or guilty[1:]
    return [*guilty[:1], *others[:1]]


def _accused(sheet: Sheet, who: Accused, test: TestOutcome, likely: str) -> None:
    ended = how_it_ended(who.witness)
    sheet.named(f"{who.named(test.world)}{', ' * bool(ended)}{ended}, in", _short(test), "cyan", 2)
    sheet.quote(story(who, likely), indent=2)
    if test.outcome in ("crash", "timeout"):
        for title, text in last_words(who.witness):
            sheet.say(f"{title}:", "dim", 2)
            sheet.quote(text, indent=4)


def _reasons(sheet: Sheet, name: str, verdict: str, clauses: Iterable[ClauseResult]) -> None:
    """Print the clauses that were not judged, under the reasons."""
    grouped: dict[str, list[str]] = {}
    for clause in clauses:
        if clause.verdict == verdict and clause.was_selected:
            grouped.setdefault(clause.reason or "no reason given", []).append(clause.id)
    if not grouped:
        return
    total = sum(map(len, grouped.values()))
    sheet.blank()
    style = "magenta" if verdict == "skipped" else "dim"
    sheet.say(f"{name}: {total} {verdict.replace('-', ' ')}", style)
    for reason, ids in grouped.items():
        sheet.say(f"{reason}: {listed(ids)}", indent=2, label=f"{len(ids):>3}  ")


def _left_open(sheet: Sheet, name: str, clauses: Iterable[ClauseResult]) -> None:
    """Print what clauses that passed leave open."""
    found = [clause for clause in clauses if clause.verdict == "pass" and clause.reason]
    if found:
        sheet.blank()
        sheet.say(f"{name}: {len(found)} passed, of which something was not judged", "dim")
    for clause in found:
        sheet.say(clause.reason, indent=2, label=f"{clause.id}: ")


def _closing(sheet: Sheet, report: Report) -> None:
    """Print the verdicts again, in the last lines, for readers who scrolled past the failures."""
    if not any(clause.is_unexpected for part in report.parts for clause in part.clauses):
        return
    sheet.blank()
    sheet.say("`conformance explain CLAUSE` shows a clause in full, with its tests.", "dim")
    for part in report.parts:
        name = part.subject or f"PyTorch {report.environment.get('torch', '')}"
        broken = sum(clause.affects_verdict for clause in part.clauses)
        if broken:
            sheet.say(f"{part.verdict}: {name}, {broken} broken", STYLES[part.verdict])


def _short(test: TestOutcome) -> str:
    return test.nodeid.rsplit("/", 1)[-1]
