"""Reuse ranks that refuse every call of their subject, if fresh ranks would refuse too."""

from __future__ import annotations

from conformance.core.accidents import accident_of
from conformance.core.outcomes import RankOutcome
from conformance.ranks.group import RankGroup
from conformance.ranks.starter import Key

#: How a test may end if no call of the subject returned.
CALLED_NOTHING = {"pass", "skip", "not-applicable"}


class Refusals:
    """Record how fresh ranks refused their subjects, and whether the present ranks can still be trusted.

    A subject that takes other arguments is refused in a hundred tests. Any other outcome on ranks that were kept
    may be caused by what the refused calls left behind.
    """

    def __init__(self) -> None:
        self.of_fresh_ranks: set[tuple[object, ...]] = set()
        self.known = False  # whether the last test was refused in a known way
        self.kept = False  # whether the present ranks were kept although they refused tests

    def believes(self, group: RankGroup, key: Key | None, outcomes: list[RankOutcome], first: bool) -> bool:
        """Tell whether fresh ranks would have the same outcomes.

        Args:
            group: the ranks.
            key: which subject is on them.
            outcomes: their outcomes of a test.
            first: whether it was their first one.
        """
        refusal = _refusal(group, key, outcomes)
        if refusal and first:
            self.of_fresh_ranks.add(refusal)
        self.known = refusal in self.of_fresh_ranks
        untouched = not group.answered and all(outcome.outcome in CALLED_NOTHING for outcome in outcomes)
        return not self.kept or self.known or (untouched and group.usable)


def _refusal(group: RankGroup, key: Key | None, outcomes: list[RankOutcome]) -> tuple[object, ...]:
    """Return which subject these ranks refused, the message and the place; empty if they did not."""
    accidents = [accident_of(outcome, outcome.message.partition("\n")[0]) for outcome in outcomes]
    return (key, *((each.words, each.place[-1:]) for each in accidents)) if group.refuses else ()
