"""Expect known deviations and judged clauses, by a TOML file: only what is new fails a run.

::

    [[expect]]
    clause = "AllGatherGradAutograd.backward.own-memory"
    subject = "mypkg.dist:*"                    # a glob; "engine" means PyTorch itself
    reason = "the gradient is a view until release 3"
    link = "https://example.org/issues/12"      # optional
    expires = 2027-01-31                        # optional: from the day after on, it counts again
    versions = "torch < 2.14"                   # optional: on other versions the entry is ignored

    [[judged]]
    subject = "mypkg.dist:Gather"
    clauses = ["Function.backward.gradient"]    # a run in which one of them is not judged fails, and says why
"""

from __future__ import annotations

import difflib
import glob
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.core.clauses import CONTRACT
from conformance.core.errors import UsageError
from conformance.core.files import read_text
from conformance.core.output import visible
from conformance.core.versions import matches_version
from conformance.report.files import write
from conformance.report.model import ClauseResult, Expected, Report, SubjectResult, overall
from conformance.report.text import one_line

if TYPE_CHECKING:
    from conformance.core.clauses import Clause

_ENGINE = "engine"
_LARGEST = 16_000_000  # bytes; an entry takes about 200
_NEEDED = ("clause", "subject", "reason")
_KEYS = (*_NEEDED, "link", "expires", "versions")
_OPEN = ("skipped", "not-applicable")


@dataclass(frozen=True)
class Expectation:
    """One entry of the file; messages name it by its ``place``."""

    clause: str
    subject: str
    reason: str
    link: str = ""
    expires: date | None = None
    versions: str = ""
    place: str = ""


@dataclass(frozen=True)
class Judged:
    """The clauses of a subject that were judged when the file was written; messages name the entry by its ``place``."""

    subject: str
    clauses: tuple[str, ...]
    place: str = ""


def read_expect(path: Path | str, clauses: Mapping[str, Clause]) -> tuple[Expectation | Judged, ...]:
    """Read an expectation file.

    Raises:
        UsageError: the file cannot be read, or an entry is wrong.
    """
    try:
        data = tomllib.loads(text := read_text(path, _LARGEST))
    except UsageError:
        raise
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{path}: not valid TOML: {one_line(str(problem))}") from None
    kinds = [data.pop(key, []) for key in ("expect", "judged")]
    tables = all(isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries) for entries in kinds)
    if data or not tables:
        found = f", not {one_line(next(iter(data)))!r}" if data else ""
        raise UsageError(f"{path}: every entry begins with [[expect]] or [[judged]]{found}")
    expected, judged = (
        list(zip(entries, _places(str(path), text, name, len(entries)), strict=True))
        for name, entries in zip(("expect", "judged"), kinds, strict=True)
    )
    read = tuple(_entry(entry, place, clauses) for entry, place in expected)
    seen: dict[tuple[str, str, str], str] = {}
    for entry in read:
        first = seen.setdefault((entry.clause, entry.subject, entry.versions), entry.place)
        if first != entry.place:
            raise UsageError(f"{entry.place}: duplicates {first}")
    return (*read, *(_judged(entry, place) for entry, place in judged))


def mark_expected(
    report: Report, expectations: Sequence[Expectation | Judged], today: date | None = None
) -> tuple[Report, list[str]]:
    """Mark what was expected, and judge the subjects without it: at best they deviate.

    Returns:
        The report, and what is wrong with the expectations: entries that match nothing, that have expired, whose
        clause holds by now, or that name a clause which was not judged. A run with such entries ends with status 1.
    """
    today = today or date.today()
    torch = str(report.environment.get("torch", ""))
    problems = []
    for entry in expectations:
        if isinstance(entry, Judged):
            problems += [f"{entry.place}: {problem}" for problem in _not_judged(entry, report)]
            continue
        if not matches_version(entry.versions, torch):
            continue
        if entry.expires and entry.expires < today:
            problems.append(f"{entry.place}: expired on {entry.expires}: {entry.clause}")
            continue
        problem = _unused(entry, report)
        problems += [f"{entry.place}: {problem}"] if problem else []
        report = _with_expected(report, entry)
    return report, problems


def write_expect(report: Report, path: Path | str) -> Path:
    """Write a first file: the judged clauses, and an entry for each broken one, refused until it has a reason.

    Raises:
        UsageError: the file exists already, or cannot be written.
    """
    path = Path(path)
    if path.exists():
        raise UsageError(f"{path} exists already, and may have reasons that you wrote; give another name")
    broken = [(part, clause) for part in report.parts for clause in part.clauses if clause.broken]
    entries = [
        f"# {clause.verdict}: {one_line(clause.reason)}\n"
        f"[[expect]]\nclause = {_toml(clause.id)}\n"
        f"subject = {_toml(glob.escape(visible(part.subject)) or _ENGINE)}\n"
        'reason = ""  # say why this is accepted\n'
        for part, clause in broken
    ]
    entries += [
        f"[[judged]]\nsubject = {_toml(visible(part.subject))}\nclauses = [\n"
        + "".join(f"    {_toml(clause.id)},\n" for clause in part.clauses if clause.verdict not in _OPEN)
        + "]\n"
        for part in report.subjects
    ]
    return write(path, "# What to expect of a run; see `conformance run --expect`.\n\n" + "\n".join(entries))


def _entry(entry: Mapping[str, Any], place: str, clauses: Mapping[str, Clause]) -> Expectation:
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{place}: unknown key {one_line(key)!r}; there are {', '.join(_KEYS)}")
    for key in _NEEDED:
        if key not in entry:
            raise UsageError(f"{place}: {key} is missing")
    texts = {key: value for key, value in entry.items() if key != "expires"}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise UsageError(f"{place}: {key} must be a string")
        if key in _NEEDED and not value.strip():
            hint = "say why this is accepted" if key == "reason" else "it must not be"
            raise UsageError(f"{place}: {key} is empty: {hint}")
    if texts["clause"] not in clauses:
        near = difflib.get_close_matches(texts["clause"], clauses, 1, 0.8)
        hint = f"did you mean {near[0]!r}?" if near else "see conformance list"
        raise UsageError(f"{place}: there is no clause {one_line(texts['clause'])!r}; {hint}")
    try:
        matches_version(texts.get("versions", ""), "2.0")
    except ValueError:
        raise UsageError(f"{place}: versions must look like 'torch < 2.14'") from None
    return Expectation(**texts, expires=_date(entry.get("expires"), place), place=place)


def _judged(entry: Mapping[str, Any], place: str) -> Judged:
    subject, ids = entry.get("subject"), entry.get("clauses")
    if set(entry) != {"subject", "clauses"} or not isinstance(subject, str) or not isinstance(ids, list):
        raise UsageError(f"{place}: an entry of judged has a subject, and clauses in a list")
    if not all(isinstance(one, str) for one in ids):
        raise UsageError(f"{place}: clauses must be ids, as strings")
    return Judged(subject, tuple(ids), place)


def _date(value: Any, place: str) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise UsageError(f"{place}: expires must be a date, such as 2027-01-31") from None


def _places(path: str, text: str, table: str, count: int) -> list[str]:
    """Return the place of each entry: its line, or its number if the file is written in a way that hides the lines."""
    lines = [number for number, line in enumerate(text.split("\n"), 1) if re.match(rf"\s*\[\[\s*{table}\s*\]\]", line)]
    if len(lines) != count:
        return [f"{path}, entry {number}" for number in range(1, count + 1)]
    return [f"{path}, line {number}" for number in lines]


def _covers(entry: Expectation, part: SubjectResult) -> bool:
    return fnmatchcase(part.subject, entry.subject) if part.subject else entry.subject == _ENGINE


def _unused(entry: Expectation, report: Report) -> str:
    """Say why the entry should be deleted; empty if it excuses a broken clause, or the clause was not run."""
    found = [
        clause for part in report.parts if _covers(entry, part) for clause in part.clauses if clause.id == entry.clause
    ]
    name = visible(entry.subject, 200)
    if not found:
        return f"matches nothing: no subject {name!r} of this run has the clause {entry.clause}"
    if any(clause.broken or clause.verdict in {"skipped", "consequence"} for clause in found):
        return ""
    holds = any(clause.verdict == "pass" for clause in found)
    return f"{entry.clause} {'passes now' if holds else 'does not apply'} for {name!r}: delete the entry"


def _not_judged(entry: Judged, report: Report) -> Iterator[str]:
    """Say which clauses were judged once and are open in this run, each with the reason."""
    name = visible(entry.subject, 200)
    parts = [part for part in report.subjects if visible(part.subject) == entry.subject]
    if not parts:
        yield f"matches nothing: there is no subject {name!r} in this run"
    for clause in (clause for part in parts for clause in part.clauses if clause.id in entry.clauses):
        if clause.verdict in _OPEN and clause.was_selected:
            yield f"{clause.id} was judged, and is {clause.verdict} for {name!r}: {one_line(clause.reason)}"


def _with_expected(report: Report, entry: Expectation) -> Report:
    expected = Expected(visible(entry.reason), visible(entry.link))

    def mark(part: SubjectResult) -> tuple[ClauseResult, ...]:
        if not _covers(entry, part):
            return part.clauses
        return tuple(
            replace(clause, expected=expected) if clause.id == entry.clause and clause.broken else clause
            for clause in part.clauses
        )

    engine = mark(SubjectResult("", CONTRACT, overall(report.engine), report.engine))
    subjects = (replace(part, clauses=mark(part)) for part in report.subjects)
    return replace(
        report,
        engine=engine,
        subjects=tuple(replace(part, verdict=overall(part.clauses)) for part in subjects),
    )


def _toml(text: str) -> str:
    """Write a TOML basic string: without control characters, that is the same as in JSON."""
    return json.dumps(visible(text), ensure_ascii=False)
