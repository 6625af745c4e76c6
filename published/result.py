"""The table of verdicts: one row for each subject, shown in a terminal and kept as JSON for the docs."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from conformance.report.model import ClauseResult
from published.run import Judged
from published.table import entries


@dataclass(frozen=True)
class Finding:
    """A clause that a subject breaks, or that could not be judged; ``message`` is what the first failing test said."""

    clause: str
    level: str
    verdict: str
    message: str = ""
    test: str = ""


@dataclass(frozen=True)
class Row:
    """A subject with its verdict; ``kept`` and ``not_applicable`` count clauses."""

    package: str
    version: str
    subject: str
    reference: str
    spec: str
    verdict: str
    torch: str
    kept: int = 0
    not_applicable: int = 0
    findings: tuple[Finding, ...] = ()
    types: str = ""
    date: str = ""
    commit: str = ""
    clauses_sha256: str = ""

    @property
    def summary(self) -> str:
        """The verdict and the clauses it rests on, in a line."""
        names = ", ".join(finding.clause for finding in self.findings)
        return f"{self.verdict} ({names})" if names else self.verdict

    def same_as(self, other: Row) -> bool:
        """Tell whether two runs agree, whatever their PyTorch and the words of their messages."""
        return (self.version, self.summary) == (other.version, other.summary)

    @classmethod
    def read(cls, file: Path) -> list[Row]:
        """The rows that :func:`write` wrote."""
        data: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["subjects"]
        return [cls(**{**row, "findings": tuple(Finding(**found) for found in row["findings"])}) for row in data]


def rows(judged: Judged) -> Iterator[Row]:
    """The rows of one package."""
    for entry in judged.entries:
        found = judged.result(entry)
        about = (entry.package.name, entry.package.version, entry.shown, entry.reference, entry.spec)
        if found is None:
            problem = Finding("", "", "not run", judged.problem)
            yield Row(*about, "incomplete", "", findings=(problem,), types=entry.types)
            continue
        assert judged.report is not None
        yield Row(
            *about,
            found.verdict,
            str(judged.report.environment.get("torch", "")),
            sum(clause.verdict == "pass" for clause in found.clauses),
            sum(clause.verdict == "not-applicable" for clause in found.clauses),
            tuple(_finding(clause) for clause in found.clauses if clause.broken or clause.verdict == "skipped"),
            entry.types,
        )


def beyond(table: Sequence[Row], known: Mapping[str, Row]) -> list[Row]:
    """The rows of a run on an accelerator, without the findings that the CPU shows as well."""
    return [replace(row, findings=_news(row, known.get(row.reference))) for row in table]


def _news(row: Row, before: Row | None) -> tuple[Finding, ...]:
    known = {finding.clause for finding in before.findings} if before else set()
    return tuple(found for found in row.findings if found.clause not in known and found.verdict != "skipped")


def dated(table: Sequence[Row]) -> list[Row]:
    """The rows with the day, the commit and the clauses that they were judged by: today's."""
    today = machine()
    return [replace(row, **{key: today[key] for key in ("date", "commit", "clauses_sha256")}) for row in table]


def write(table: Sequence[Row], file: Path) -> None:
    """Keep the table."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": 1, "subjects": [asdict(row) for row in table]}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def merge(table: Sequence[Row], file: Path) -> None:
    """Put rows into the table on record, where other runs may do the same; what has no entry any more goes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(file.parent):
        known = {row.reference: row for row in Row.read(file)} if file.exists() else {}
        rows_now = known | {row.reference: row for row in table}
        write([rows_now[entry.reference] for entry in entries() if entry.reference in rows_now], file)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other run writes into a folder, and keep others waiting meanwhile."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def show(table: Sequence[Row]) -> None:
    """Print the table."""
    from rich.table import Table
    from rich.text import Text

    from conformance.report.sheet import terminal

    sheet = Table("package", "subject", "spec", "verdict", "kept", "breaks", box=None, pad_edge=False)
    for row in table:
        breaks = "\n".join(f"{found.clause} ({found.verdict})" for found in row.findings)
        words = (f"{row.package} {row.version}", row.subject, row.spec, row.verdict, str(row.kept), breaks)
        sheet.add_row(*map(Text, words))
    terminal().print(sheet)


def _finding(clause: ClauseResult) -> Finding:
    guilty = [test for test in clause.tests if test.outcome not in {"pass", "not-applicable"}]
    if not guilty:
        return Finding(clause.id, clause.level, clause.verdict, clause.reason)
    # If there are both, wrong values say more than an exception.
    first = min(guilty, key=lambda test: test.outcome != "fail")
    said = re.sub(r"0x[0-9a-f]{6,}", "0x...", (first.message or first.reason).partition("\n  File ")[0])
    return Finding(clause.id, clause.level, clause.verdict, said[:800], first.nodeid)
