"""Is a report what it claims to be? Everything in it that can be recomputed is recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from conformance.core.clauses import Clause, digest_of, registry, text_hash
from conformance.core.clauses import digest as installed
from conformance.core.errors import UsageError
from conformance.core.garbage import collector_paused
from conformance.core.joining import join
from conformance.core.outcomes import BROKEN, Outcome, TestOutcome
from conformance.core.output import visible
from conformance.core.versions import is_version, suite_version
from conformance.core.worlds import MOST_RANKS, are_world_sizes
from conformance.report.against_plan import against_plan, named
from conformance.report.consequences import with_consequences
from conformance.report.files import load
from conformance.report.model import ClauseResult, Report, SubjectResult, overall, page_of, sha256_of
from conformance.report.text import plain
from conformance.report.verdicts import judged, owed_by


@dataclass(frozen=True)
class Verified:
    """A recomputed report: what is wrong with it, and what could not be recomputed."""

    problems: tuple[str, ...]
    taken: str


def verify(
    path: Path | str, clauses: Mapping[str, Clause], digest: str | None = None, with_plan: bool = True
) -> Verified:
    """Check a report.json against the installed suite, and against itself.

    Args:
        path: the file.
        clauses: the registry to hold it against.
        digest: the registry's digest; taken from the installed suite when left out.
        with_plan: whether the installed tests are those of this registry.

    Raises:
        UsageError: the file cannot be read, or holds no JSON, or a spec that it was made with is not installed.
    """
    with collector_paused():
        data = load(path)
        try:
            report = Report.from_json(data)
        except ValueError as problem:
            return Verified((_line(str(problem)),), "")
        digest = digest or installed()
        clauses = {**clauses, **_from_outside(report)}
        same = with_plan and report.suite["clauses_sha256"] == digest and report.suite["version"] == suite_version()
        problems = [
            *_against_registry(report, clauses, digest),
            *_specs(report, clauses),
            *_environment(report),
            *(against_plan(report, clauses) if same else ()),
            *_recomputed(report, clauses),
            *_content(data),
        ]
    return Verified(tuple(map(_line, problems)), _taken(report, same))


def _from_outside(report: Report) -> Mapping[str, Clause]:
    """Return the clauses of specs from other distributions, as they are installed here.

    Raises:
        UsageError: one of them is not.
    """
    names = [own.name for own in report.specs]
    try:
        return {name: clause for name, clause in registry(*names).items() if clause.spec in names}
    except UsageError as error:
        needs = " and ".join(f"{own.distribution} {own.version}" for own in report.specs)
        raise UsageError(f"the report was made with {needs}: {error}") from None


def _specs(report: Report, clauses: Mapping[str, Clause]) -> Iterator[str]:
    """Yield the specs from outside whose clauses have changed."""
    for own in report.specs:
        if own.clauses_sha256 != digest_of(clause for clause in clauses.values() if clause.spec == own.name):
            yield f"specs: {own.name} has other clauses here than in {own.distribution} {own.version}"


def _taken(report: Report, same: bool) -> str:
    """List what cannot be recomputed, in words."""
    excused = sum(clause.expected is not None for part in report.parts for clause in part.clauses)
    known = [f"that {excused} deviations are accepted"] if excused else []
    suites = f"the suite was {report.suite['version']}, here it is {suite_version()}"
    other = [] if same else [f"which tests there are ({suites})"]
    return ", ".join(["what each rank gave", *known, *other])


def _environment(report: Report) -> Iterator[str]:
    """Yield facts about the environment of the run that cannot be true."""
    versions = {"torch": report.environment["torch"], "python": report.environment["python"]}
    for name, said in {**versions, "suite": report.suite["version"]}.items():
        if not is_version(said):
            yield f"{name}: {said!r} is no version"
    if not are_world_sizes(report.environment["ranks"]):
        yield f"ranks: world sizes are from 1 to {MOST_RANKS}"
    for name in ("started", "engine_tested"):
        if (when := getattr(report, name)) and not _is_time(when):
            yield f"{name}: {when!r} is not a time in ISO 8601"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _line(problem: str) -> str:
    return visible(problem, 1_000).replace("\n", " ")


def _content(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield changes that leave no contradiction behind, such as a subject that was removed."""
    if "content_sha256" not in data:
        yield "content_sha256 is missing: nothing tells whether the report is whole"
    elif data["content_sha256"] != _digest_of(data):
        yield "content_sha256: the report was changed after it was written"


def _digest_of(data: Mapping[str, Any]) -> str:
    try:
        return sha256_of(data)
    except ValueError:  # a text that no report has
        return ""


def _against_registry(report: Report, clauses: Mapping[str, Clause], digest: str) -> Iterator[str]:
    if report.suite["clauses_sha256"] != digest:
        yield "clauses_sha256: the report was made with other clauses than those of this suite"
    if not report.subjects and not report.engine:
        yield "the report is about nothing"
    owed = {name for name, clause in clauses.items() if clause.party == "engine"}
    yield from _ids("engine", report.engine, owed, clauses)
    for part in report.subjects:
        yield from _ids(named(part), part.clauses, set(owed_by(part.spec, clauses)), clauses)
    for key, count in Counter((part.subject, part.spec) for part in report.subjects).items():
        if count > 1:
            yield f"{key[0]} ({key[1]}): judged {count} times"


def _ids(name: str, found: tuple[ClauseResult, ...], owed: set[str], clauses: Mapping[str, Clause]) -> Iterator[str]:
    counts = Counter(clause.id for clause in found)
    for result, count in counts.items():
        if count > 1:
            yield f"{name}: clause {result} is judged {count} times"
    for missing in clauses:
        if missing in owed and missing not in counts:
            yield f"{name}: clause {missing} is missing"
    for result_ in found:
        yield from _words(name, result_, clauses.get(result_.id))


def _words(name: str, result: ClauseResult, clause: Clause | None) -> Iterator[str]:
    if clause is None:
        yield f"{name}: there is no clause {result.id}"
        return
    if result.level != clause.level:
        yield f"{name}: {result.id} is a {clause.level} clause, not {result.level}"
    if result.text_sha256 and result.text_sha256 != text_hash(clause):
        yield f"{name}: {result.id} had another text when the report was made"
    elif result.text and result.text != plain(clause.text):
        yield f"{name}: {result.id} has a text that is not the clause's"
    if result.page and result.page != page_of(clause):
        yield f"{name}: {result.id} points to a page that does not state it"


def _recomputed(report: Report, clauses: Mapping[str, Clause]) -> Iterator[str]:
    torch = report.environment["torch"]
    for part in report.parts:
        for result, verdict, reason in _verdicts(part, clauses, torch):
            yield from _outcomes(part, result)
            if result.verdict != verdict:
                yield f"{named(part)}: {result.id} is {result.verdict}, but its outcomes say {verdict}"
            elif verdict == "consequence" and result.reason != reason:
                yield f"{named(part)}: {result.id} is a consequence of {reason}, not of {result.reason}"
            elif result.reason != reason:
                yield f"{named(part)}: {result.id} gives a reason that is not its tests'"
            if result.expected and not result.broken:
                yield f"{named(part)}: {result.id} is said to be broken as expected, but is {result.verdict}"
        if part.verdict != overall(part.clauses):
            yield f"{named(part)}: {part.verdict}, but the clauses say {overall(part.clauses)}"
        if part.clauses and all(result.verdict == "not-applicable" for result in part.clauses):
            yield f"{named(part)}: no clause applies, so nothing was tested"


def _verdicts(
    part: SubjectResult, clauses: Mapping[str, Clause], torch: str
) -> Iterator[tuple[ClauseResult, str, str]]:
    """Yield each clause with the verdict and the reason that follow from its tests; skip unknown clauses."""
    known = [result for result in part.clauses if result.id in clauses]
    alone = [judged(clauses[result.id], result.tests, torch) for result in known]
    fresh = with_consequences(
        [
            replace(result, verdict=verdict, reason=reason)
            for result, (verdict, reason) in zip(known, alone, strict=True)
        ]
    )
    for result, again in zip(known, fresh, strict=True):
        yield result, again.verdict, again.reason


def _outcomes(part: SubjectResult, result: ClauseResult) -> Iterator[str]:
    for test in result.tests:
        where = f"{named(part)}: {result.id}: {test.nodeid}"
        if test.outcome != _joined(test):
            yield f"{where} is {test.outcome}, but its ranks say {_joined(test)}"
        yield from _ranks(where, test)
        if (test.clause, test.subject) != (result.id, part.subject) or (part.subject and test.spec != part.spec):
            yield f"{where} is about {test.clause} and {test.subject or 'the engine'}"


def _ranks(where: str, test: TestOutcome) -> Iterator[str]:
    """Yield ranks that are not in the world, and broken ranks of a test that is not broken."""
    numbers = [rank.rank for rank in test.ranks]
    if len(set(numbers)) < len(numbers) or any(number >= test.world for number in numbers):
        yield f"{where} has other ranks than a world of {test.world}"
    broken = [rank for rank in test.ranks if rank.outcome in BROKEN]
    if broken and test.outcome not in BROKEN:
        yield f"{where} is {test.outcome}, but rank {broken[0].rank} gave {broken[0].outcome}"


def _joined(test: TestOutcome) -> Outcome:
    """Join the outcomes of the ranks; a test without ranks was not run."""
    if not test.ranks and test.outcome in {"skip", "not-applicable"}:
        return test.outcome
    return join(test.ranks, test.world)[0]
