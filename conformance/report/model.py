"""A report as data: what was run and where, and each clause with its verdict and its tests.

The JSON Schema of report.json is made from these types, and they validate a report that is read.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict, get_args

import msgspec
from msgspec import Meta

from conformance.core.clauses import CONTRACT, LEVELS, Level
from conformance.core.outcomes import BROKEN, Seconds, TestOutcome, converted
from conformance.report.text import plain

if TYPE_CHECKING:
    from conformance.core.clauses import Clause

__all__ = [
    "LEVELS",
    "NOT_SELECTED",
    "SCHEMA",
    "SUBJECT_VERDICTS",
    "VERDICTS",
    "ClauseResult",
    "Environment",
    "Expected",
    "Report",
    "SpecFromOutside",
    "SubjectResult",
    "Suite",
    "overall",
    "page_of",
    "sha256_of",
]

SCHEMA: Literal[2] = 2
#: Verdicts on a clause, worst first.
ClauseVerdict = Literal["crash", "timeout", "error", "fail", "consequence", "skipped", "pass", "not-applicable"]
VERDICTS: tuple[ClauseVerdict, ...] = get_args(ClauseVerdict)
#: Verdicts on a subject, worst first.
SubjectVerdict = Literal["fails", "incomplete", "deviates", "conforms"]
SUBJECT_VERDICTS: tuple[SubjectVerdict, ...] = get_args(SubjectVerdict)
#: The reason of a test that was not selected.
NOT_SELECTED = "not selected"

_Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Name = Annotated[str, Meta(min_length=1)]


class Suite(TypedDict):
    """Which suite made the report."""

    version: Annotated[str, Meta(description="Its version.")]
    clauses_sha256: Annotated[_Sha256, Meta(description="Changes when a clause does.")]


@dataclass(frozen=True)
class SpecFromOutside:
    """A specification that another distribution brings."""

    name: Annotated[_Name, Meta(description="Its name.")]
    distribution: Annotated[str, Meta(description="The distribution that registers it.")]
    version: Annotated[str, Meta(description="The version of that.")]
    clauses_sha256: Annotated[_Sha256, Meta(description="Changes when one of its own clauses does.")]


class Environment(TypedDict):
    """Where the run took place."""

    torch: Annotated[str, Meta(description="Version of PyTorch.")]
    python: Annotated[str, Meta(description="Version of Python.")]
    platform: Annotated[str, Meta(description="The operating system, as Python names it.")]
    backend: Annotated[str, Meta(description="Backend of torch.distributed.")]
    device: Annotated[str, Meta(description="The device that tensors were on.")]
    ranks: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(description="The world sizes that were requested.")]
    cuda: NotRequired[Annotated[str, Meta(description="Version of CUDA.")]]
    nccl: NotRequired[Annotated[str, Meta(description="Version of NCCL.")]]
    gpus: NotRequired[Annotated[str, Meta(description="Number of accelerators of that kind.")]]
    accelerator: NotRequired[Annotated[str, Meta(description="Their model.")]]
    driver: NotRequired[Annotated[str, Meta(description="Version of the NVIDIA driver.")]]
    launched: NotRequired[Annotated[int, Meta(description="Number of processes that a launcher started.")]]
    machines: NotRequired[Annotated[int, Meta(description="Number of machines they were on.")]]


@dataclass(frozen=True)
class Expected:
    """Why a broken clause does not count: the user listed it as known."""

    reason: Annotated[str, Meta(description="Why it is accepted.")]
    link: Annotated[str, Meta(description="Where that is discussed.")] = ""


@dataclass(frozen=True)
class ClauseResult:
    """The verdict on one clause; ``text`` and ``page`` let a report be read without the suite."""

    id: _Name
    level: Level
    verdict: Annotated[ClauseVerdict, Meta(description="The worst of its tests, unless it is a consequence.")]
    reason: Annotated[
        str,
        Meta(description="Why it is not pass; of a consequence, the id of its cause; of a pass, what it leaves open."),
    ] = ""
    tests: Annotated[tuple[TestOutcome, ...], Meta(description="The tests that assert it.")] = ()
    text: Annotated[str, Meta(description="What the clause promised when the run was made.")] = ""
    text_sha256: Annotated[str, Meta(description="A hash of that text, which changes when the text does.")] = ""
    page: Annotated[
        str, Meta(description="Where the docs state it: a whole address, or from the root of the site.")
    ] = ""
    expected: Annotated[Expected | None, Meta(description="Set if --expect names the clause as broken.")] = None

    @property
    def broken(self) -> bool:
        """Tell whether the clause was seen not to hold."""
        return self.verdict in BROKEN

    @property
    def is_unexpected(self) -> bool:
        """Tell whether it is broken and nobody expected that."""
        return self.broken and self.expected is None

    @property
    def affects_verdict(self) -> bool:
        """Tell whether it is broken unexpectedly and changes a verdict: a broken may clause is a note."""
        return self.is_unexpected and self.level != "may"

    @property
    def is_note(self) -> bool:
        """Tell whether it is broken unexpectedly and changes no verdict: a note to the reader."""
        return self.is_unexpected and self.level == "may"

    @property
    def was_selected(self) -> bool:
        """Tell whether the run was asked to judge it: ``-k`` leaves clauses out."""
        return not (self.verdict == "skipped" and self.reason == NOT_SELECTED)


@dataclass(frozen=True)
class SubjectResult:
    """The verdict on one subject, clause by clause."""

    subject: Annotated[_Name, Meta(description="module:attribute")]
    spec: Annotated[str, Meta(description="The spec it was checked against.")]
    verdict: Annotated[SubjectVerdict, Meta(description="The verdict on it.")]
    clauses: Annotated[tuple[ClauseResult, ...], Meta(description="Every clause of the contract and of its spec.")]
    ranks: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="The worlds that it is judged in, if it names any.")
    ] = ()

    def clause(self, clause_id: str) -> ClauseResult:
        """Return the verdict on one clause, by its id, such as ``Function.backward.gradient``.

        Raises:
            KeyError: no such clause was planned for this subject.
        """
        for clause in self.clauses:
            if clause.id == clause_id:
                return clause
        raise KeyError(clause_id)

    @property
    def functions(self) -> tuple[str, ...]:
        """Return the Function classes that its calls ran, other than the subject itself, as ``module:name``."""
        found = {
            name for clause in self.clauses for test in clause.tests for one in test.ranks for name in one.functions
        }
        return tuple(sorted(found - {self.subject}))

    @property
    def no_gradient(self) -> str:
        """Say why nothing of backward applies; empty if something does. A method's name may be mistyped."""
        backward = [clause for clause in self.clauses if ".backward." in clause.id]
        if any(clause.verdict != "not-applicable" for clause in backward):
            return ""
        reasons = Counter(clause.reason.partition(";")[0] for clause in backward if clause.reason)
        return max(reasons, key=reasons.__getitem__) if reasons else ""


@dataclass(frozen=True)
class Report:
    """The result of a run of the conformance suite. Readers ignore keys they do not know."""

    suite: Suite
    environment: Environment
    engine: Annotated[tuple[ClauseResult, ...], Meta(description="What PyTorch itself promises.")]
    subjects: Annotated[tuple[SubjectResult, ...], Meta(description="What was under test.")]
    specs: Annotated[
        tuple[SpecFromOutside, ...], Meta(description="The specs of subjects that other distributions bring.")
    ] = ()
    schema: Annotated[Literal[2], Meta(description="Version of this format.")] = SCHEMA
    started: Annotated[str, Meta(description="When the run began, ISO 8601.")] = ""
    engine_tested: Annotated[
        str, Meta(description="When an earlier run tested PyTorch itself, ISO 8601; else empty.")
    ] = ""
    seconds: Annotated[Seconds, Meta(description="How long the run took.")] = 0.0
    interrupted: Annotated[bool, Meta(description="Whether the user stopped the run.")] = False
    command: Annotated[str, Meta(description="How the run was started, if from a shell.")] = ""

    def __repr__(self) -> str:
        """Name the verdicts and what is broken, as a prompt shows them; :meth:`to_json` has everything.

        >>> broken = ClauseResult("Function.backward.double", "quality", "fail")
        >>> subject = SubjectResult("pkg:Scale", "Function", "deviates", (broken,))
        >>> Report(suite={}, environment={}, engine=(), subjects=(subject,))
        <Report: pkg:Scale deviates: Function.backward.double>
        """
        return f"<Report: {'; '.join(map(_summary, self.parts))}>"

    @property
    def parts(self) -> tuple[SubjectResult, ...]:
        """Return the engine, if it was tested, as a subject with an empty name; then the subjects."""
        engine = (SubjectResult("", CONTRACT, overall(self.engine), self.engine),) if self.engine else ()
        return engine + self.subjects

    def titled(self, spec: str) -> str:
        """Name a spec, with its distribution unless that is the suite."""
        origins = (f"{spec}, {own.distribution} {own.version}" for own in self.specs if own.name == spec)
        return next(origins, spec)

    @classmethod
    def from_json(cls, data: Any) -> Report:
        """Rebuild from :meth:`to_json`; unknown keys are ignored, and a test need not name its subject.

        Raises:
            ValueError: the data is not a report; the message says where and why.
        """
        if not isinstance(data, dict) or "schema" not in data:
            raise ValueError("Object missing required field `schema`")
        report = converted(data, cls)
        subjects = tuple(
            replace(part, clauses=_complete(part.clauses, part.subject, part.spec)) for part in report.subjects
        )
        return replace(report, engine=_complete(report.engine, "", CONTRACT), subjects=subjects)

    def to_json(self) -> dict[str, Any]:
        """Return plain data as the published schema has it, long texts clipped and hidden characters escaped."""
        data: dict[str, Any] = plain(msgspec.to_builtins(self))
        return {**data, "content_sha256": sha256_of(data)}


def _summary(part: SubjectResult) -> str:
    broken = [clause.id for clause in part.clauses if clause.affects_verdict]
    return f"{part.subject or 'PyTorch itself'} {part.verdict}{': ' if broken else ''}{', '.join(broken)}"


def sha256_of(data: Mapping[str, Any]) -> str:
    """Return the digest of a report's content, whatever the layout of its JSON.

    Raises:
        ValueError: a text is not Unicode, as none in a report is.
    """
    content = {key: value for key, value in data.items() if key != "content_sha256"}
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def page_of(clause: Clause) -> str:
    """Return the page that states the clause: relative to our site, or the address that the spec names.

    ``Function.backward.count`` is at ``api/spec_impl/function_backward/index.html#clause-Function.backward.count``.
    """
    page = clause.site or f"api/{clause.module.replace('.', '/')}/index.html"
    return f"{page}#clause-{clause.id}"


def overall(clauses: Iterable[ClauseResult]) -> SubjectVerdict:
    """Judge a subject by its clauses; a consequence counts through its cause.

    >>> overall([])
    'incomplete'
    """
    clauses = tuple(clauses)
    if any(clause.is_unexpected and clause.level == "must" for clause in clauses):
        return "fails"
    verdicts = {clause.verdict for clause in clauses}
    if "skipped" in verdicts or "pass" not in verdicts:
        return "incomplete"
    return "deviates" if any(clause.broken and clause.level != "may" for clause in clauses) else "conforms"


def _complete(clauses: tuple[ClauseResult, ...], subject: str, spec: str) -> tuple[ClauseResult, ...]:
    """Complete the tests of clauses that do not name their clause and spec."""
    return tuple(
        replace(clause, tests=tuple(_about(test, clause.id, subject, spec) for test in clause.tests))
        if any(not (test.clause and test.spec) for test in clause.tests)
        else clause
        for clause in clauses
    )


def _about(test: TestOutcome, clause: str, subject: str, spec: str) -> TestOutcome:
    if test.clause and test.spec:
        return test
    return replace(test, clause=clause, subject=subject, spec=spec, world=test.world or len(test.ranks) or 1)
