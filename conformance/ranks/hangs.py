"""Remember in which collectives the ranks of a subject hang: the same hang is not waited for a third time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from conformance.core.disagreement import name_of
from conformance.core.outcomes import BROKEN, RankOutcome

#: After as many tests, a hang in the same collective ends as soon as no rank does anything.
TIMES = 2
#: How that is reported.
AGAIN = "hangs where earlier tests hung, and no rank does anything"


class Hangs:
    """Count the tests of each subject that hung, by the collective in which a rank waited for others."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()

    def note(self, subject: str, outcomes: Sequence[RankOutcome]) -> None:
        """Count a test, if it hung, and not because a rank had failed in some other way."""
        if {found.outcome for found in outcomes} & set(BROKEN) == {"timeout"}:
            self.seen[subject, waited_in([found.collectives for found in outcomes])] += 1

    def known(self, subject: str) -> Collection[str]:
        """The collectives in which enough tests of a subject hung."""
        return {name for (of, name), times in self.seen.items() if of == subject and name and times >= TIMES}


def waited_in(collectives: Sequence[Sequence[str]]) -> str:
    """The name of the collective in which a rank is that another one never entered; empty if there is none.

    >>> waited_in([["all_reduce(x)", "broadcast(x)"], ["all_reduce(x)"]]), waited_in([["broadcast(x)"]] * 2)
    ('broadcast', '')
    """
    fewest, most = min(map(len, collectives), default=0), max(map(len, collectives), default=0)
    ahead = {name_of(entered[-1]) for entered in collectives if fewest < most == len(entered)}
    return ahead.pop() if len(ahead) == 1 else ""
