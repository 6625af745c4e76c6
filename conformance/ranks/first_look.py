"""Check a subject before any test: can it be imported and called, and does it fit its types?"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from conformance.core.clauses import CONTRACT
from conformance.core.errors import ForkserverDied, StartFailed, UsageError
from conformance.core.homes import HOUSE, find
from conformance.core.outcomes import BAD_SUBJECT, BadSubject, Outcome, RankOutcome
from conformance.core.plan import SubjectRef
from conformance.core.worlds import are_world_sizes
from conformance.ranks.pool import Pool
from conformance.ranks.starter import IMPORTING, Key, cannot_be_tested

#: Outcome of a rank, and its whole reply.
_Answer = tuple[RankOutcome, Mapping[str, Any]]


class Preflight(NamedTuple):
    """Result of checking a subject: an outcome with its message, or ``pass`` with the spec.

    ``types`` and ``ranks`` are the subject's own, empty if it has none.
    """

    outcome: Outcome | BadSubject
    said: str
    types: str = ""
    ranks: tuple[int, ...] = ()


def preflight(pool: Pool, subject: SubjectRef | None) -> Preflight:
    """Import a subject on one rank and take its samples; without one, only call what is to be set up.

    Inputs of a spec that gathers may depend on their rank: if they raise, they are called again in a group of one,
    or in the smallest world in which the subject is judged. There may be as many samples as ranks.
    """
    found, details = _samples(pool, subject, Key(subject, 1, group=False))
    is_unfit = cannot_be_tested(found, details) or found.outcome == "not-applicable"
    if is_unfit and details.get("gathers") is True:
        own = details.get("ranks", ())
        size = min(own) if own and are_world_sizes(own) else 1
        with contextlib.suppress(StartFailed):
            found, details = _samples(pool, subject, Key(subject, size, group=True))
    spec, ranks = details.get("spec", subject.spec if subject else CONTRACT), details.get("ranks", ())
    if found.outcome == "timeout":
        pool.never_loads(subject, found)
    if found.outcome == "pass" and not _is_spec(spec):
        found = RankOutcome(0, "crash", f"{IMPORTING}: the rank's answer names no spec that there is")
    if found.outcome != "pass":
        return Preflight(BAD_SUBJECT if cannot_be_tested(found, details) else found.outcome, found.message)
    # A subject may have written what a rank sends.
    return Preflight("pass", spec, details.get("types", ""), tuple(ranks) if are_world_sizes(ranks) else ())


def _is_spec(name: object) -> bool:
    """Whether a name is that of a spec of ours, or of one that is installed."""
    try:
        return isinstance(name, str) and (name in HOUSE or bool(find(name)))
    except UsageError:
        return False


def misfit(pool: Pool, subject: SubjectRef, size: int) -> str:
    """Say how a subject's types differ from what it returns in a world; empty if it does not return."""
    try:
        answers = _answers(pool, subject, Key(subject, size, group=True), "types")
    except ForkserverDied as error:
        pool.begin_again(error)
        return ""
    except StartFailed:
        return ""
    # Tests judge any other fault.
    return next((found.message for found, reply in answers if cannot_be_tested(found, reply)), "")


def _samples(pool: Pool, subject: SubjectRef | None, key: Key) -> _Answer:
    """What a rank said of a subject and its samples: the first that could not take them."""
    try:
        answers = _answers(pool, subject, key, "samples")
    except ForkserverDied as error:
        pool.begin_again(error)
        found = RankOutcome(0, "crash", f"{IMPORTING}: the forkserver was killed")
        pool.never_loads(subject, found)
        return pool.put_back([found])[0], {}
    return next((answer for answer in answers if cannot_be_tested(*answer)), answers[0])


def _answers(pool: Pool, subject: SubjectRef | None, key: Key, look: Literal["samples", "types"]) -> list[_Answer]:
    """Return what each rank of a fresh group says of a subject.

    Raises:
        StartFailed: the ranks did not start.
        ForkserverDied: the forkserver was killed meanwhile.
    """
    pool.forkserver.strays.note()
    with pool.starter.start(key, pool.settings) as ranks:
        outcomes = pool.starter.load(ranks, subject, pool.settings, look)
        details = ranks.details()
    return list(zip(pool.put_back(outcomes), details, strict=True))
