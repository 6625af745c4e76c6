"""Test outcomes, per rank and joined.

Everything here is plain data that crosses process borders as JSON, never as pickles; the same types validate it there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta

#: Worst first: a test's outcome is the worst of its ranks' outcomes.
Outcome = Literal["crash", "timeout", "error", "fail", "skip", "not-applicable", "pass"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
#: A rank's answer if the subject cannot be tested as it is named; no test has this outcome.
BadSubject = Literal["bad-subject"]
BAD_SUBJECT: BadSubject = "bad-subject"
#: The outcomes that break a clause, worst first. A rank with any other outcome is not at fault.
BROKEN: tuple[Outcome, ...] = ("crash", "timeout", "error", "fail")
#: The same, the most informative first: a rank that failed an assertion has values, one that raised has none.
TELLING: tuple[Outcome, ...] = ("crash", "fail", "timeout", "error")
#: The cause of a failure that occurs only on ranks that have run other tests.
EARLIER_CALLS = (
    "what earlier calls left behind, or a race, such as a missing wait(): "
    "on ranks that had run nothing else, this test passed"
)
#: Why a test that does not apply is open: what ran before it ended its rank.
DIED_LATER = (
    "a rank was {} while it ran, because of what earlier calls left behind: "
    "on ranks that had run nothing else, it does not apply"
)
#: Why a test is open whose rank died, and not again.
DIED_ONCE = (
    "a rank was {} while it ran, and the cause is not known: "
    "no rank died when this test ran again alone, or after the tests before it, in the same order; run it again"
)
#: What to do about a result or a gradient that changes after it was returned.
WAIT_IN_FORWARD = "asynchronous work is left behind in forward: wait for it"
WAIT_IN_BACKWARD = "asynchronous work is left behind in backward: wait for it"
#: The cause of a failure that disappears if every collective ends before it returns.
LEFT_BEHIND = (
    "asynchronous work is left behind: the test passes if every collective ends before it returns; call wait()"
)
#: The same mistake under its three names.
NOT_WAITED_FOR = (WAIT_IN_FORWARD, WAIT_IN_BACKWARD, LEFT_BEHIND)

#: How the proof of a hang on simulated ranks begins; what each rank waits for follows.
PROVED = "no rank can ever go on: "
#: Stands before the samples with which a test does hold that fails with others.
HOLDS_WITH = ", and holds with "
#: Stands before the ranks of a group smaller than the world, at the end of a collective's line.
AMONG = " among ranks "

#: How many judgements a rank may send for one test.
JUDGEMENTS_KEPT = 100
#: No world is larger than this.
MOST = 1_000_000

_Kind = TypeVar("_Kind")
Seconds = Annotated[float, Meta(ge=0)]


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Join outcomes: the worst one counts, and nothing at all is an error.

    >>> worst(["pass", "fail", "pass"])
    'fail'
    >>> worst([])
    'error'
    """
    return min(outcomes, key=OUTCOMES.index, default="error")


def converted(data: Any, kind: type[_Kind]) -> _Kind:
    """Return plain data as one of the types here or of a report; unknown keys are ignored.

    Raises:
        ValueError: the data does not fit; the message says where and why.
    """
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise ValueError(str(problem)) from None


@dataclass(frozen=True)
class JudgedGradient:
    """How one gradient was judged: by which oracle, how finely, and what it saw; null if it was not measured."""

    of: Annotated[str, Meta(description="Whose gradient, such as input 0 of sample 0.")]
    verdict: Annotated[Literal["agrees", "differs", "unclear"], Meta(description="What the oracle says.")]
    oracle: Annotated[str, Meta(description="What it was compared with.")]
    rule: Annotated[str, Meta(description="The rule that decided.")] = ""
    actual: Annotated[float | None, Meta(description="What backward says along the direction compared.")] = None
    expected: Annotated[float | None, Meta(description="What the oracle says there.")] = None
    error: Annotated[float | None, Meta(description="The relative error that was seen.")] = None
    resolution: Annotated[
        float | None, Meta(description="The smallest relative error of the whole gradient that would have been seen.")
    ] = None
    elsewhere: Annotated[float | None, Meta(description="The same of an error of any other shape.")] = None
    step: Annotated[float | None, Meta(description="The longest step, next to the input.")] = None
    noise: Annotated[float | None, Meta(description="How far rounding alone moves the comparison.")] = None
    calls: Annotated[int, Meta(ge=0, description="How many calls it took.")] = 0


def judgements_from(data: Any) -> tuple[JudgedGradient, ...]:
    """Read the judgements that a rank sent; none if they are malformed, since a subject may have written them."""
    try:
        return converted(data, tuple[JudgedGradient, ...])[:JUDGEMENTS_KEPT]
    except ValueError:
        return ()


@dataclass(frozen=True)
class RankOutcome:
    """The outcome of a test on one rank."""

    rank: Annotated[int, Meta(ge=0, le=MOST, description="Which rank.")]
    outcome: Outcome
    message: Annotated[str, Meta(description="What was compared, actual and expected; or the error.")] = ""
    likely: Annotated[str, Meta(description="The likely cause, if the suite recognizes one.")] = ""
    exitcode: Annotated[int | None, Meta(description="The exit code of a rank that died.")] = None
    signal: Annotated[str, Meta(description="The signal that killed it.")] = ""
    stack: Annotated[str, Meta(description="Where the rank was when it was late.")] = ""
    output: Annotated[str, Meta(description="The last it printed.")] = ""
    collectives: Annotated[tuple[str, ...], Meta(description="The last collectives it had entered.")] = ()
    changed: Annotated[tuple[str, ...], Meta(description="What the test left changed, such as the default dtype.")] = ()
    bystander: Annotated[bool, Meta(description="Whether it only waited for a rank that broke.")] = False
    judgements: Annotated[tuple[JudgedGradient, ...], Meta(description="How gradients were judged there.")] = ()
    functions: Annotated[tuple[str, ...], Meta(description="The Function classes that the subject's calls ran.")] = ()

    @classmethod
    def from_json(cls, data: Any) -> RankOutcome:
        """Rebuild from :meth:`to_json`; unknown keys are ignored.

        Raises:
            ValueError: the data is not an outcome.
        """
        return converted(data, cls)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, ready for :func:`json.dumps`."""
        return _plain(self)


@dataclass(frozen=True)
class TestOutcome:
    """The outcome of a test on all its ranks. ``subject`` is empty for clauses about PyTorch's engine."""

    __test__ = False  # pytest would take the name for a test class

    nodeid: Annotated[str, Meta(description="The test, as pytest names it.")]
    outcome: Annotated[Outcome, Meta(description="The worst of its ranks.")]
    seconds: Annotated[Seconds, Meta(description="How long it took.")]
    clause: Annotated[str, Meta(description="The id of the clause that it asserts.")] = ""
    subject: Annotated[str, Meta(description="The subject; empty if PyTorch itself is tested.")] = ""
    spec: Annotated[str, Meta(description="The spec of the subject.")] = ""
    world: Annotated[int, Meta(ge=0, le=MOST, description="Number of ranks.")] = 0
    message: Annotated[str, Meta(description="What failed, over all ranks.")] = ""
    reason: Annotated[str, Meta(description="Why it was skipped or is not applicable.")] = ""
    likely: Annotated[str, Meta(description="The likely cause, if the suite recognizes one.")] = ""
    reproduce: Annotated[str, Meta(description="A command that runs this test alone.")] = ""
    ranks: Annotated[tuple[RankOutcome, ...], Meta(description="The outcome on each rank.")] = ()

    @property
    def asserted(self) -> bool:
        """Tell whether an assertion failed on any rank: another rank may have ended worse, and decides the outcome."""
        return self.outcome == "fail" or any(rank.outcome == "fail" and not rank.bystander for rank in self.ranks)

    @classmethod
    def from_json(cls, data: Any) -> TestOutcome:
        """Rebuild from :meth:`to_json`; unknown keys are ignored.

        Raises:
            ValueError: the data is not an outcome.
        """
        return converted(data, cls)

    @classmethod
    def from_text(cls, text: str) -> TestOutcome:
        """Rebuild from :meth:`to_text`.

        Raises:
            ValueError: the text is not an outcome.
        """
        try:
            return converted(json.loads(text), cls)
        except RecursionError as problem:
            raise ValueError(str(problem)) from None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, ready for :func:`json.dumps`."""
        return _plain(self)

    def to_text(self) -> str:
        """Return one line of ASCII JSON: a subject may print lone surrogates, which pytest-xdist cannot send."""
        return json.dumps(self.to_json())


def _plain(outcome: object) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(outcome)
    return data
