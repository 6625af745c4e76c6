"""A report as data: what was run where, and for every clause its verdict with the tests that say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.core.outcomes import TestOutcome
from conformance.report.text import plain

if TYPE_CHECKING:
    from conformance.core.clauses import Clause

#: Verdicts on a clause, worst first.
VERDICTS = ("crash", "timeout", "error", "fail", "skipped", "pass", "not-applicable")
BROKEN = ("crash", "timeout", "error", "fail")
#: Verdicts on a subject, worst first.
SUBJECT_VERDICTS = ("fails", "incomplete", "deviates", "conforms")
LEVELS = ("must", "should", "may", "quality")


@dataclass(frozen=True)
class Expected:
    """Why a broken clause does not count: somebody wrote down that it is known."""

    reason: str
    link: str = ""


@dataclass(frozen=True)
class ClauseResult:
    """The verdict on one clause; ``text`` and ``page`` let a report be read without the suite."""

    id: str
    level: str
    verdict: str
    reason: str = ""
    tests: tuple[TestOutcome, ...] = ()
    text: str = ""
    text_sha256: str = ""
    page: str = ""
    expected: Expected | None = None

    @property
    def broken(self) -> bool:
        """Whether the clause was seen not to hold."""
        return self.verdict in BROKEN

    @property
    def counts(self) -> bool:
        """Whether it is broken and nobody expected that."""
        return self.broken and self.expected is None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], subject: str = "", spec: str = "Function") -> ClauseResult:
        """Rebuild from :meth:`to_json`; unknown keys are ignored, and a test need not say whose it is."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        expected = known.get("expected")
        return cls(
            **{
                **known,
                "tests": tuple(_test(test, data["id"], subject, spec) for test in known.get("tests", ())),
                "expected": expected and Expected(expected["reason"], expected.get("link", "")),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``expected`` is there only where it says something."""
        data = {key: getattr(self, key) for key in self.__dataclass_fields__ if key not in ("tests", "expected")}
        if self.expected:
            data["expected"] = asdict(self.expected)
        return {**data, "tests": [test.to_json() for test in self.tests]}


@dataclass(frozen=True)
class SubjectResult:
    """The verdict on one subject, clause by clause."""

    subject: str
    spec: str
    verdict: str
    clauses: tuple[ClauseResult, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubjectResult:
        """Rebuild from :meth:`to_json`."""
        clauses = tuple(ClauseResult.from_json(clause, data["subject"], data["spec"]) for clause in data["clauses"])
        return cls(data["subject"], data["spec"], data["verdict"], clauses)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        clauses = [clause.to_json() for clause in self.clauses]
        return {"subject": self.subject, "spec": self.spec, "verdict": self.verdict, "clauses": clauses}


@dataclass(frozen=True)
class Report:
    """Everything one run found out."""

    suite: Mapping[str, Any]
    environment: Mapping[str, Any]
    engine: tuple[ClauseResult, ...]
    subjects: tuple[SubjectResult, ...]
    schema: int = 1
    started: str = ""
    seconds: float = 0.0
    interrupted: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def parts(self) -> tuple[SubjectResult, ...]:
        """The engine, where it was tested, as if it were a subject with an empty name; then the subjects."""
        engine = (SubjectResult("", "Function", overall(self.engine), self.engine),) if self.engine else ()
        return engine + self.subjects

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        """Rebuild from :meth:`to_json`; unknown keys are ignored."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        return cls(
            **{
                **known,
                "engine": tuple(ClauseResult.from_json(clause) for clause in data["engine"]),
                "subjects": tuple(SubjectResult.from_json(subject) for subject in data["subjects"]),
                "notes": tuple(known.get("notes", ())),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data as the published schema has it, long texts clipped and hidden characters escaped."""
        data: dict[str, Any] = plain(
            {
                "schema": self.schema,
                "suite": dict(self.suite),
                "started": self.started,
                "seconds": self.seconds,
                "interrupted": self.interrupted,
                "notes": self.notes,
                "environment": dict(self.environment),
                "engine": [clause.to_json() for clause in self.engine],
                "subjects": [subject.to_json() for subject in self.subjects],
            }
        )
        return data


def page_of(clause: Clause) -> str:
    """Where the published docs state the clause, from the root of the site.

    ``AllGatherGradAutograd.backward.sum`` is at
    ``api/spec_impl/ksuit/index.html#clause-AllGatherGradAutograd.backward.sum``.
    """
    return f"api/{clause.module.replace('.', '/')}/index.html#clause-{clause.id}"


def _test(data: Mapping[str, Any], clause: str, subject: str, spec: str) -> TestOutcome:
    around = {"clause": clause, "subject": subject, "spec": spec}
    world = int(data.get("world", len(data["ranks"]) or 1))
    return TestOutcome.from_json({**around, **data, "world": world})


def overall(clauses: Iterable[ClauseResult]) -> str:
    """The verdict on a subject that these clauses add up to.

    >>> overall([])
    'incomplete'
    """
    clauses = tuple(clauses)
    if any(clause.counts and clause.level == "must" for clause in clauses):
        return "fails"
    verdicts = {clause.verdict for clause in clauses}
    if "skipped" in verdicts or "pass" not in verdicts:
        return "incomplete"
    return "deviates" if any(clause.broken for clause in clauses) else "conforms"
