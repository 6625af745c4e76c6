"""Failures of a broken clause: tests that failed alike are one failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.core.accidents import without_addresses
from conformance.core.outcomes import BROKEN, TELLING, RankOutcome, TestOutcome
from conformance.core.output import visible
from conformance.report.model import ClauseResult
from conformance.report.text import first_line, one_line

#: The beginnings of frames of the suite, or of the code that started the rank; and of a rank that waits for others.
_OWN = (f'  File "{Path(__file__).parents[1]}/', '  File "<frozen runpy>"')
_WAITING = f'{_OWN[0]}ranks/channel.py"'
_MODULES = "Extension modules: "  # faulthandler lists them below every stack of a crash


@dataclass(frozen=True)
class Accused:
    """Ranks with the same outcome and the same message; ``witness`` is the first of them."""

    ranks: tuple[int, ...]
    witness: RankOutcome

    @property
    def bystanders(self) -> bool:
        """Tell whether they only waited for a rank that broke."""
        return self.witness.bystander

    @property
    def word(self) -> str:
        """Return their outcome, or ``bystander`` if they only waited."""
        return "bystander" if self.bystanders else self.witness.outcome

    def named(self, world: int) -> str:
        """Name the ranks, out of how many."""
        if len(self.ranks) == world > 1:
            return "both ranks" if world == 2 else f"all {world} ranks"
        return f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))} of {world}"


@dataclass(frozen=True)
class Failure:
    """A test that broke a clause, and the tests of the same clause that broke it alike."""

    test: TestOutcome
    alike: tuple[TestOutcome, ...] = ()

    @property
    def accused(self) -> tuple[Accused, ...]:
        """Return the ranks that broke the clause, the most informative first, then the bystanders."""
        said: dict[tuple[bool, str, str], list[RankOutcome]] = {}
        for rank in self.test.ranks:
            if rank.outcome in BROKEN:
                said.setdefault((rank.bystander, rank.outcome, without_addresses(rank.message)), []).append(rank)
        groups = [Accused(tuple(rank.rank for rank in ranks), ranks[0]) for ranks in said.values()]
        return tuple(sorted(groups, key=lambda group: (group.bystanders, TELLING.index(group.witness.outcome))))

    @property
    def likely(self) -> str:
        """Return the likely cause, from the test or else from a rank."""
        return self.test.likely or next((who.witness.likely for who in self.accused if who.witness.likely), "")


def failures(clause: ClauseResult) -> tuple[Failure, ...]:
    """Return the failures of a clause, the worst first; if first lines differ only in numbers, they count as one."""
    alike: dict[tuple[str, str, str], list[TestOutcome]] = {}
    for test in clause.tests:
        if test.outcome in BROKEN:
            alike.setdefault(_signature(test), []).append(test)
    found = _explained_by_assertions([Failure(tests[0], tuple(tests[1:])) for tests in alike.values()])
    return tuple(sorted(found, key=lambda failure: BROKEN.index(failure.test.outcome)))


def _explained_by_assertions(found: Sequence[Failure]) -> list[Failure]:
    """Put each error that an assertion quotes under that assertion, which explains it."""
    asserted = [failure for failure in found if failure.test.outcome == "fail"]
    groups = {id(failure): [failure] for failure in found}
    for failure in found:
        words = first_line(_message(failure.test))
        quoting = next((other for other in asserted if words and words in _message(other.test)), None)
        if failure.test.outcome == "error" and quoting is not None:
            groups[id(quoting)] += groups.pop(id(failure))
    return [
        replace(first, alike=(*first.alike, *(test for each in others for test in (each.test, *each.alike))))
        for first, *others in groups.values()
    ]


def by_cause(clauses: Iterable[ClauseResult]) -> Iterator[tuple[ClauseResult, tuple[ClauseResult, ...]]]:
    """Yield broken clauses, each with the later ones that failed by the very same accident.

    A subject that cannot be imported breaks every clause in the same way, which is reported once. Clauses whose
    assertions failed are always reported separately.
    """
    causes: dict[object, list[ClauseResult]] = {}
    for clause in clauses:
        signatures = {_signature(failure.test) for failure in failures(clause)}
        accident = len(signatures) == 1 and not any(test.asserted for test in clause.tests)
        causes.setdefault(next(iter(signatures)) if accident else clause.id, []).append(clause)
    for first, *rest in causes.values():
        yield first, tuple(rest)


def story(who: Accused, likely: str = "") -> str:
    """Return the message of a rank without its likely cause, which is shown separately."""
    lines = visible(who.witness.message).rstrip().splitlines()
    if likely and lines and _alike(lines[-1].strip()) == _alike(f"looks like: {visible(likely)}"):
        lines.pop()
    return "\n".join(lines)


def how_it_ended(rank: RankOutcome) -> str:
    """Name the signal or exit code of a lost rank; empty if it was not lost."""
    if rank.signal:
        return f"killed by {visible(rank.signal)}"
    return f"exit code {rank.exitcode}" if rank.exitcode else ""


def last_words(rank: RankOutcome, lines: int = 12) -> Iterator[tuple[str, str]]:
    """Yield more about a rank that crashed or was late: titles, each with a short text."""
    if stack := _of_the_subject(_said(_working_thread_first(rank.stack))):
        yield "stack", "\n".join(stack[:lines])
    if output := _said(rank.output):
        yield "last output", "\n".join(output[-lines:])
    if rank.collectives:
        yield "collectives entered", "\n".join(map(visible, rank.collectives[-lines:]))


def _said(text: str) -> list[str]:
    return [line for line in visible(text).splitlines() if line.strip() and not line.startswith(_MODULES)]


def _of_the_subject(stack: list[str]) -> list[str]:
    """Remove the suite's frames from a stack; if there are no others, keep all, or say that it waited for ranks."""
    frames = [line for line in stack if line.startswith('  File "')]
    kept = [line for line in stack if not line.startswith(_OWN)]
    if any(line in kept for line in frames):
        return kept
    return ["no line of the subject's: it waited for other ranks"] if _is_waiting(frames) else stack


def _is_waiting(frames: list[str]) -> bool:
    return bool(frames) and frames[0].startswith(_WAITING)


def _working_thread_first(stack: str) -> str:
    """Put the working thread first: faulthandler shows the other threads before it."""
    others, current, working = stack.partition("Current thread ")
    return f"{current}{working}\n{others}" if others.startswith("Thread ") else stack


def _signature(test: TestOutcome) -> tuple[str, str, str]:
    guilty = _guilty(test)
    words = one_line(_message(test))
    return test.outcome, _alike(words), test.likely or (guilty.likely if guilty else "")


def _alike(words: str) -> str:
    """Remove the numbers of one case or rank."""
    return re.sub(r"\d+", "#", without_addresses(words))


def _message(test: TestOutcome) -> str:
    """Return the message of the rank that broke it, or the message of the test."""
    guilty = _guilty(test)
    return guilty.message if guilty and guilty.message else test.message


def _guilty(test: TestOutcome) -> RankOutcome | None:
    """Return the rank that decided the outcome, or one that failed an assertion: whichever says more."""
    words = [word for word in TELLING if word in {test.outcome, "fail"}]
    ranks = [rank for rank in test.ranks if not rank.bystander]
    return next((rank for word in words for rank in ranks if rank.outcome == word), None)
