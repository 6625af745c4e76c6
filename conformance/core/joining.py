"""Join the outcomes of a test's ranks into one: nothing else does that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from conformance.core.accidents import own_line
from conformance.core.disagreement import NOTHING_MORE, POINT_TO_POINT, first_difference, name_of
from conformance.core.outcomes import AMONG, BROKEN, TELLING, Outcome, RankOutcome, TestOutcome, worst

if TYPE_CHECKING:
    from conformance.core.plan import PlannedTest

#: The message of a test whose clause applies only on some ranks.
DISAGREE = "ranks disagree on whether the clause applies"
#: How the message of a rank begins on which ``call=`` raised, outside of the subject.
OUTSIDE = "call= raises outside of"
#: Clauses whose tests make calls in which only some ranks take part.
OF_GROUPS = "Collective.group."


def joined(item: PlannedTest, outcomes: Sequence[RankOutcome], seconds: float) -> TestOutcome:
    """Join the ranks' outcomes of a test that ran, or report one that could not run."""
    outcome, message = join(outcomes, item.size)
    broken = outcome in BROKEN
    return TestOutcome(
        nodeid=item.nodeid,
        clause=item.test.clause,
        subject=item.label,
        spec=item.spec,
        world=item.size,
        outcome=outcome,
        seconds=round(seconds, 6),
        message=message if broken else "",
        reason="" if broken else message,
        likely=_likely(outcomes, in_a_group=item.test.clause.startswith(OF_GROUPS)),
        reproduce=item.reproduce if broken else "",
        # Output and calls help only if something broke; a long run cannot keep all of them.
        ranks=tuple(outcomes if broken else (replace(found, output="", collectives=()) for found in outcomes)),
    )


def join(outcomes: Sequence[RankOutcome], world: int) -> tuple[Outcome, str]:
    """Return the outcome and its message: any rank that fails, dies or disagrees fails the test.

    The worst rank decides, and is named with one that failed an assertion; one that only waited for another decides
    nothing. A pass counts only if every rank passed.
    """
    left = _left_behind(outcomes)
    if left:
        return "not-applicable", f"rank {left.rank} of {len(outcomes)}: {left.message}"
    if _disagree(outcomes):
        each = ", ".join(f"rank {outcome.rank} {outcome.outcome}" for outcome in outcomes)
        return "error", f"{DISAGREE}: {each}"
    outcome = worst(cause.outcome for cause in _deciding(outcomes))
    silent = sorted(set(range(world)) - {found.rank for found in outcomes})
    if silent and outcome in {"pass", "not-applicable"}:
        return "error", f"no outcome came from rank {', '.join(map(str, silent))} of {world}"
    deciding = sorted(_deciding(outcomes), key=lambda found: found.exitcode is None)  # what ended may end the others
    firsts = {cause.outcome: cause for cause in reversed(deciding)}
    if outcome not in firsts:
        return outcome, "no rank gave an outcome"
    if outcome not in BROKEN or len(outcomes) == 1:
        return outcome, firsts[outcome].message
    named = [firsts[word] for word in TELLING if word in firsts and word in {outcome, "fail"}]
    said = [f"rank {found.rank} of {len(outcomes)}: {found.message}" for found in named]
    return outcome, "\n".join(filter(None, [*said, str(first_difference(outcomes) or "")]))


def _disagree(outcomes: Sequence[RankOutcome]) -> bool:
    """Tell whether the clause applies on only some ranks: the others pass, or wait in a collective."""
    without = [outcome for outcome in outcomes if outcome.outcome == "not-applicable"]
    others = [outcome for outcome in outcomes if outcome.outcome != "not-applicable"]
    furthest = max((len(outcome.collectives) for outcome in without), default=0)
    return bool(without and others) and all(
        outcome.outcome == "pass" or (outcome.outcome == "timeout" and len(outcome.collectives) > furthest)
        for outcome in others
    )


def _left_behind(outcomes: Sequence[RankOutcome]) -> RankOutcome | None:
    """Return a rank on which ``call=`` itself raised, if the others only wait for it in a collective."""
    left = [one for one in outcomes if one.outcome == "not-applicable" and one.message.startswith(OUTSIDE)]
    others = [one for one in outcomes if one not in left]
    waits = all(one.outcome == "timeout" and one.collectives for one in others)
    return left[0] if left and others and waits else None


def _likely(outcomes: Sequence[RankOutcome], in_a_group: bool) -> str:
    """Return the likely cause: what a rank found, or else what the collectives of all ranks show."""
    found_by_a_rank = next((found.likely for found in outcomes if found.likely), "")
    return found_by_a_rank or _group_left_out(outcomes) or _collective_left_out(outcomes, in_a_group)


def _group_left_out(outcomes: Sequence[RankOutcome]) -> str:
    """Report a rank that hangs in a collective of all ranks, after collectives of a group; empty if none does."""
    for found in outcomes:
        *before, last = found.collectives or ("",)
        groups = [call.partition(AMONG)[2] for call in before if AMONG in call]
        if found.outcome == "timeout" and groups and AMONG not in last:
            return (
                f"rank {found.rank} called a collective on the default group after one on the group of ranks "
                f"{groups[-1]}: pass `group=` there too"
            )
    return ""


def _collective_left_out(outcomes: Sequence[RankOutcome], in_a_group: bool) -> str:
    """Report ranks that hang in a collective of all ranks that others do not enter; empty if none do.

    In a test of groups the others may belong to none, and have no reason to enter it.
    """
    calls = [call for found in outcomes for call in found.collectives]
    if not any(found.outcome == "timeout" for found in outcomes) or any(map(_is_of_some, calls)):
        return ""
    found = first_difference(outcomes)
    names = {rank: name_of(text) for rank, text in found.called.items()} if found else {}
    called = {name for name in names.values() if name != NOTHING_MORE}
    waiting = [rank for rank, name in names.items() if name != NOTHING_MORE]
    absent = [rank for rank, name in names.items() if name == NOTHING_MORE]
    if len(called) != 1 or not absent:
        return ""
    line = next((line for each in outcomes if each.rank in waiting and (line := own_line(each.stack))), "")
    told = f"{_ranks(absent)} left out {called.pop()}, in which {_ranks(waiting)} waited{line and f' at {line}'}"
    return f"{told}; it is of the default group: in a call with another, pass `group=` there" if in_a_group else told


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _is_of_some(call: str) -> bool:
    """Tell whether only some ranks make a call: within a group, or from one rank to another."""
    return AMONG in call or name_of(call) in POINT_TO_POINT


def _deciding(outcomes: Sequence[RankOutcome]) -> Sequence[RankOutcome]:
    """Return the ranks that decide the outcome: those that broke it, or all if each one only waited."""
    return [outcome for outcome in outcomes if not outcome.bystander] or outcomes
