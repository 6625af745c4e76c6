"""Is a report what it claims to be? Everything in it that can be recomputed is recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.core.versions import matches_version
from conformance.report.files import load, schema_problems
from conformance.report.model import ClauseResult, Report, SubjectResult, overall
from conformance.report.text import visible
from conformance.report.verdicts import clause_verdict, owed_by, settled

if TYPE_CHECKING:
    from conformance.core.clauses import Clause

_MANY = 20  # problems with the schema that are worth printing


def verify(path: Path | str, clauses: Mapping[str, Clause], digest: str | None = None) -> list[str]:
    """What is wrong with a report.json; nothing, if the list is empty.

    Args:
        path: the file.
        clauses: the registry to hold it against.
        digest: the registry's digest; taken from the installed suite when left out.

    Raises:
        UsageError: the file cannot be read, or holds no JSON.
    """
    data = load(path)
    problems = schema_problems(data)
    if not problems:
        report = Report.from_json(data)
        problems = [
            *_against_registry(report, clauses, digest or _installed()),
            *_recomputed(report, clauses),
        ]
    return [visible(problem, 1_000).replace("\n", " ") for problem in problems[:_MANY]] + _left_out(len(problems))


def _left_out(count: int) -> list[str]:
    return [f"and {count - _MANY} more problems"] if count > _MANY else []


def _installed() -> str:
    from conformance.core.clauses import digest

    return digest()


def _against_registry(report: Report, clauses: Mapping[str, Clause], digest: str) -> Iterator[str]:
    if report.suite["clauses_sha256"] != digest:
        yield "clauses_sha256: the report was made with other clauses than those of this suite"
    if not report.subjects and not report.engine:
        yield "the report is about nothing"
    owed = {name for name, clause in clauses.items() if clause.party == "engine"}
    yield from _ids("engine", report.engine, owed, clauses)
    for part in report.subjects:
        yield from _ids(_name(part), part.clauses, set(owed_by(part.spec, clauses)), clauses)
    for key, count in Counter((part.subject, part.spec) for part in report.subjects).items():
        if count > 1:
            yield f"{key[0]} ({key[1]}): judged {count} times"


def _ids(name: str, found: tuple[ClauseResult, ...], owed: set[str], clauses: Mapping[str, Clause]) -> Iterator[str]:
    for result, count in Counter(clause.id for clause in found).items():
        if count > 1:
            yield f"{name}: clause {result} is judged {count} times"
    for missing in clauses:
        if missing in owed and missing not in {clause.id for clause in found}:
            yield f"{name}: clause {missing} is missing"
    for result_ in found:
        yield from _words(name, result_, clauses.get(result_.id))


def _words(name: str, result: ClauseResult, clause: Clause | None) -> Iterator[str]:
    from conformance.core.clauses import text_hash

    if clause is None:
        yield f"{name}: there is no clause {result.id}"
        return
    if result.level != clause.level:
        yield f"{name}: {result.id} is a {clause.level} clause, not {result.level}"
    if result.text_sha256 and result.text_sha256 != text_hash(clause):
        yield f"{name}: {result.id} had another text when the report was made"


def _recomputed(report: Report, clauses: Mapping[str, Clause]) -> Iterator[str]:
    torch = str(report.environment["torch"])
    for part in report.parts:
        for result in part.clauses:
            yield from _outcomes(part, result)
            verdict = clause_verdict(settled(test) for test in result.tests)
            clause = clauses.get(result.id)
            if clause and not result.tests and not matches_version(clause.versions, torch):
                verdict = "not-applicable"
            if result.verdict != verdict:
                yield f"{_name(part)}: {result.id} is {result.verdict}, but its outcomes say {verdict}"
            if result.expected and not result.broken:
                yield f"{_name(part)}: {result.id} is said to be broken as expected, but is {result.verdict}"
        if part.verdict != overall(part.clauses):
            yield f"{_name(part)}: {part.verdict}, but the clauses say {overall(part.clauses)}"


def _outcomes(part: SubjectResult, result: ClauseResult) -> Iterator[str]:
    for test in result.tests:
        where = f"{_name(part)}: {result.id}: {test.nodeid}"
        if settled(test).outcome != test.outcome:
            yield f"{where} is {test.outcome}, but its ranks say {settled(test).outcome}"
        if (test.clause, test.subject) != (result.id, part.subject) or (part.subject and test.spec != part.spec):
            yield f"{where} is about {test.clause} and {test.subject or 'the engine'}"


def _name(part: SubjectResult) -> str:
    return f"{part.subject} ({part.spec})" if part.subject else "engine"
