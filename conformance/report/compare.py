"""Compare two reports: clause by clause, and the verdicts on the subjects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console

from conformance.core.prose import counted
from conformance.report.model import SUBJECT_VERDICTS, VERDICTS, ClauseResult, Report, SubjectResult
from conformance.report.sheet import Sheet
from conformance.report.text import plain

_ABSENT = "absent"
#: The higher, the worse. Not applicable is no worse than kept; absent is worse.
_CLAUSE_RANK: dict[str, int] = {**{word: rank for rank, word in enumerate(reversed(VERDICTS))}, "pass": 0, _ABSENT: 1}
_CLAUSE_RANK["not-applicable"] = 0
_SUBJECT_RANK = {word: rank for rank, word in enumerate(reversed(SUBJECT_VERDICTS))}
_FACTS = ("torch", "python", "platform", "backend", "device", "ranks")


@dataclass(frozen=True)
class Change:
    """A clause whose verdict has changed, or a subject if ``clause`` is empty; ``absent`` is a verdict too."""

    subject: str
    spec: str
    clause: str
    level: str
    old: str
    new: str
    effect: str
    reason: str = ""

    @property
    def name(self) -> str:
        """Return the change in words."""
        subject = f"{self.subject} ({self.spec})" if self.subject else "PyTorch itself"
        return f"{self.clause} ({self.level}), {subject}" if self.clause else subject


@dataclass(frozen=True)
class Comparison:
    """All changes, and what else differs between the runs."""

    verdicts: tuple[Change, ...]
    clauses: tuple[Change, ...]
    differences: tuple[str, ...]

    @property
    def worse(self) -> bool:
        """Tell whether anything got worse."""
        return any(change.effect == "worse" for change in (*self.verdicts, *self.clauses))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, ready for :func:`json.dumps`."""
        data: dict[str, Any] = plain({**asdict(self), "worse": self.worse})
        return data


def compare(old: Report, new: Report) -> Comparison:
    """Compare two reports, the earlier one first."""
    pairs = list(_pairs(old, new))
    same_registry = old.suite.get("clauses_sha256") == new.suite.get("clauses_sha256")
    return Comparison(
        verdicts=tuple(change for before, after in pairs for change in _verdict(before, after)),
        clauses=tuple(change for before, after in pairs for change in _clauses(before, after, same_registry)),
        differences=tuple(_differences(old, new)),
    )


def show(comparison: Comparison, console: Console) -> None:
    """Print a comparison, what got worse first."""
    sheet = Sheet(console)
    for line in comparison.differences:
        sheet.say(line, "dim")
    styles = {"worse": "bold red", "better": "green", "changed": ""}
    for effect, style in styles.items():
        changes = [change for change in (*comparison.verdicts, *comparison.clauses) if change.effect == effect]
        for change, *others in _told_together(changes):
            more = f" and {counted(len(others), 'more clause')}" if others else ""
            sheet.say(f"{change.name}{more}: {change.old} -> {change.new}", style, label=f"{effect:<8}")
            if change.reason and effect == "worse":
                sheet.quote(change.reason, indent=8)
    if not comparison.verdicts and not comparison.clauses:
        sheet.say("No verdict changed.")


def _told_together(changes: Iterable[Change]) -> Iterable[list[Change]]:
    """Group the changes of clauses that cannot, or could not, be judged because of the same other clause."""
    groups: dict[object, list[Change]] = {}
    for number, change in enumerate(changes):
        consequence = "consequence" in (change.old, change.new)
        cause = change.reason if change.new == "consequence" else ""
        key = (change.subject, change.spec, change.old, change.new, cause) if consequence else number
        groups.setdefault(key, []).append(change)
    return groups.values()


def _pairs(old: Report, new: Report) -> Iterator[tuple[SubjectResult | None, SubjectResult | None]]:
    before = {(part.subject, part.spec): part for part in old.parts}
    after = {(part.subject, part.spec): part for part in new.parts}
    for key in {**before, **after}:
        yield before.get(key), after.get(key)


def _verdict(before: SubjectResult | None, after: SubjectResult | None) -> Iterator[Change]:
    part = after or before
    if part is None or (before and after and before.verdict == after.verdict):
        return
    effect = "changed"  # a subject that is new is neither better nor worse than it was
    if before:
        step = _SUBJECT_RANK[after.verdict] - _SUBJECT_RANK[before.verdict] if after else 1
        effect = "worse" if step > 0 else "better"
    old, new = (side.verdict if side else _ABSENT for side in (before, after))
    yield Change(part.subject, part.spec, "", "", old, new, effect)


def _clauses(before: SubjectResult | None, after: SubjectResult | None, same_registry: bool) -> Iterator[Change]:
    if before is None or after is None:
        return  # the verdict on the subject is enough
    old = {clause.id: clause for clause in before.clauses}
    new = {clause.id: clause for clause in after.clauses}
    for name in {**old, **new}:
        change = _change(after, old.get(name), new.get(name))
        if change and name not in new and not same_registry:
            change = replace(change, effect="changed")  # retired
        if change:
            yield change


def _change(part: SubjectResult, old: ClauseResult | None, new: ClauseResult | None) -> Change | None:
    clause = new or old
    was, now = (side.verdict if side else _ABSENT for side in (old, new))
    if clause is None or was == now:
        return None
    step = _CLAUSE_RANK[now] - _CLAUSE_RANK[was]
    if old is None and not clause.broken:
        step = 0  # a clause that was added and holds
    effect = "worse" if step > 0 else "better" if step < 0 else "changed"
    return Change(part.subject, part.spec, clause.id, clause.level, was, now, effect, new.reason if new else "")


def _differences(old: Report, new: Report) -> Iterator[str]:
    """Yield reasons why the reports may differ although the subjects have not changed."""
    for fact in _FACTS:
        was, now = old.environment.get(fact), new.environment.get(fact)
        if was != now:
            yield f"{fact}: {was} -> {now}"
    if old.suite.get("clauses_sha256") != new.suite.get("clauses_sha256"):
        versions = f"{old.suite.get('version')} -> {new.suite.get('version')}"
        yield f"the reports were made with different clauses (suite {versions})"
    for word, report in (("old", old), ("new", new)):
        if report.interrupted:
            yield f"the {word} run was interrupted"
