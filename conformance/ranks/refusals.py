"""Ranks that refuse every call of their subject: they serve the next test too, where fresh ranks would say the same."""

from __future__ import annotations

from conformance.core.accidents import accident_of
from conformance.core.outcomes import RankOutcome
from conformance.ranks.group import RankGroup
from conformance.ranks.starter import Key

#: How a test may end that has no call of the subject to judge.
CALLED_NOTHING = {"pass", "skip", "not-applicable"}


class Refusals:
    """How fresh ranks refused their subjects, and whether the present ranks are still believed.

    A subject that takes other arguments is refused in a hundred tests. What else happens on ranks that are kept
    after that may come of what those calls left behind.
    """

    def __init__(self) -> None:
        self.of_fresh_ranks: set[tuple[object, ...]] = set()
        self.known = False  # whether the last test was refused in one of these ways
        self.kept = False  # whether the present ranks are, although tests were refused there

    def believes(self, group: RankGroup, key: Key | None, outcomes: list[RankOutcome], first: bool) -> bool:
        """Whether fresh ranks would have said the same.

        Args:
            group: the ranks.
            key: which subject is on them.
            outcomes: what they said of a test.
            first: whether it was their first one.
        """
        refusal = _refusal(group, key, outcomes)
        if refusal and first:
            self.of_fresh_ranks.add(refusal)
        self.known = refusal in self.of_fresh_ranks
        untouched = not group.answered and all(outcome.outcome in CALLED_NOTHING for outcome in outcomes)
        return not self.kept or self.known or (untouched and group.usable)


def _refusal(group: RankGroup, key: Key | None, outcomes: list[RankOutcome]) -> tuple[object, ...]:
    """Which subject these ranks refused, with what words and where; empty where they did not."""
    accidents = [accident_of(outcome, outcome.message.partition("\n")[0]) for outcome in outcomes]
    return (key, *((each.words, each.place[-1:]) for each in accidents)) if group.refuses else ()
