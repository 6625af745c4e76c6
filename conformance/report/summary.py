"""The top of a report on a terminal: one line for PyTorch, one for each subject, and what was not selected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from conformance.core.output import shown
from conformance.core.prose import counted
from conformance.report.model import LEVELS, NOT_SELECTED, ClauseResult, Report, SubjectResult, overall
from conformance.report.sheet import Sheet
from conformance.report.text import one_line

STYLES = {
    "conforms": "bold green",
    "deviates": "bold yellow",
    "incomplete": "bold magenta",
    "fails": "bold red",
}
_WIDEST = max(map(len, STYLES))


def summarize(sheet: Sheet, report: Report) -> None:
    """Print the verdicts, and how many clauses were kept."""
    if any(clause.was_selected for clause in report.engine):
        sheet.say(_engine_line(report), STYLES[overall(filter(_asked, report.engine))])
    for subject in _asked_of(report):
        _subject_line(sheet, subject, report.titled(subject.spec))
    _not_selected(sheet, report)


def _engine_line(report: Report) -> str:
    kept, applicable = _kept(report.engine)
    torch = f"PyTorch {report.environment.get('torch', '')}"
    skipped = [clause.reason for clause in report.engine if clause.was_selected and clause.verdict == "skipped"]
    if skipped and len(skipped) == applicable:
        return f"{torch} was not judged: {one_line(skipped[0])}"
    tested = f" (tested {report.engine_tested.partition('T')[0]})" if report.engine_tested else ""
    return f"{torch} keeps {kept} of {applicable} engine clauses{tested}"


def _asked_of(report: Report) -> tuple[SubjectResult, ...]:
    """Return the subjects of the selected tests; all subjects if there is none."""
    asked = tuple(subject for subject in report.subjects if any(map(_was_asked, subject.clauses)))
    return asked or report.subjects


def _was_asked(clause: ClauseResult) -> bool:
    """Tell whether any test of a clause was selected, even if the clause has no verdict without the others."""
    return clause.was_selected or any(test.outcome != "skip" for test in clause.tests)


def _not_selected(sheet: Sheet, report: Report) -> None:
    """Print one line for everything that ``-k`` left out."""
    engine = sum(not clause.was_selected for clause in report.engine)
    asked = _asked_of(report)
    others = len(report.subjects) - len(asked)
    own = sum(not clause.was_selected for subject in asked for clause in subject.clauses)
    left_out = [f"{counted(engine, 'clause')} of PyTorch itself"] * bool(engine)
    left_out += [counted(others, "subject")] * bool(others)
    number = f"{own}" if engine and not others else counted(own, "clause")
    of_whom = ("other " if others else "") + ("subject" if len(asked) == 1 else "subjects")
    left_out += [f"{number} of the {of_whom}"] * bool(own)
    if left_out:
        *first, last = left_out
        sheet.say(f"Not selected: {', '.join(first)}{' and ' * bool(first)}{last}.", "dim")
        _selected(sheet, report)


def _selected(sheet: Sheet, report: Report) -> None:
    """Say that no selected test fails, if so: a clause has no verdict if ``-k`` left out other tests of it."""
    every = [test for part in report.parts for clause in part.clauses for test in clause.tests]
    ran = [test.outcome for test in every if test.outcome != "skip"]
    if not ran or not set(ran) <= {"pass", "not-applicable"}:
        return
    passed = ran.count("pass")
    skipped = any(test.outcome == "skip" and test.reason != NOT_SELECTED for test in every)
    all_good = passed and not skipped
    text = f"Of the selected tests {passed} passed, and {len(ran) - passed} did not apply: nothing broken."
    sheet.say(text, "green" if all_good else "dim")
    if all_good and any(subject.verdict == "incomplete" for subject in report.subjects):
        sheet.say("It is incomplete, for a verdict needs all tests: run the same without -k.", "dim")


def _subject_line(sheet: Sheet, subject: SubjectResult, spec: str) -> None:
    """Print the verdict, and for each level how many of the selected clauses that apply were kept."""
    verdict = (f"{subject.verdict:<{_WIDEST}}  ", STYLES[subject.verdict])
    name = (shown(f"{subject.subject} ({spec})", 300), "bold")
    counts = [_count(level, [clause for clause in subject.clauses if clause.level == level]) for level in LEVELS]
    other = sum(clause.verdict == "not-applicable" for clause in subject.clauses)
    counts += [Text(f"not applicable {other}", "dim")] if other else []
    sheet.pair(Text.assemble(verdict, name), Text("  ").join(filter(None, counts)), indent=_WIDEST + 2)
    if subject.functions:
        sheet.say(shown(f"Functions that ran: {', '.join(subject.functions)}", 300), "dim", _WIDEST + 2)
    if why := shown(subject.no_gradient, 200):
        sheet.say(f"no gradient was judged: {why}", "yellow", _WIDEST + 2)
    if found := _types_found(subject):
        sheet.say(f"{found}; say which you mean with --types", "yellow", _WIDEST + 2)


def _types_found(subject: SubjectResult) -> str:
    """Say by which types a collective without claimed types was judged: its author may have meant others."""
    tests = (test for clause in subject.clauses if clause.id == "Collective.forward.types" for test in clause.tests)
    reasons = (test.reason for test in tests)  # the clause has another reason if some of its tests were not selected
    return next((shown(reason, 200) for reason in reasons if reason.startswith("no types were given")), "")


def _count(level: str, clauses: Sequence[ClauseResult]) -> Text:
    kept, applicable = _kept(clauses)
    if not applicable:
        return Text()
    short = "magenta" if kept < applicable else ""
    style = "red" if any(clause.affects_verdict for clause in clauses) else short
    return Text(f"{level} {kept}/{applicable}", style)


def _asked(clause: ClauseResult) -> bool:
    return clause.was_selected


def _kept(clauses: Iterable[ClauseResult]) -> tuple[int, int]:
    """Count the clauses that passed, and those that were selected and apply."""
    verdicts = [clause.verdict for clause in clauses if clause.was_selected and clause.verdict != "not-applicable"]
    return verdicts.count("pass"), len(verdicts)
