"""Remember in which collectives the ranks of a subject hang: the same hang is not waited for a third time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import zip_longest

from conformance.core.disagreement import name_of
from conformance.core.outcomes import AMONG, BROKEN, RankOutcome

#: After as many tests, a hang in the same collective ends as soon as no rank does anything.
TIMES = 2
#: How that is reported.
AGAIN = "hangs where earlier tests hung, and no rank does anything"
#: Collectives that end on no rank before every rank has entered them.
NEED_EVERY_RANK = frozenset(
    {"all_gather", "all_gather_into_tensor", "all_reduce", "barrier", "reduce_scatter", "reduce_scatter_tensor"}
)


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
    """Return the name of the first collective that not all ranks entered; empty if there is none.

    A rank may get further in one test than in another: a root has sent before anybody receives.

    >>> waited_in([["all_reduce(x)", "broadcast(x)", "all_reduce(x)"], ["all_reduce(x)"]])
    'broadcast'
    >>> waited_in([["send(x)"], ["recv(x)"]]), waited_in([["broadcast(x)"]] * 2)
    ('recv or send', '')
    """
    for entered in zip_longest(*collectives):
        names = {name_of(call) if call else "" for call in entered}
        if len(names) > 1:
            return " or ".join(sorted(names - {""}))
    return ""


def cannot_end(entered: Sequence[str], without: Sequence[str]) -> bool:
    """Tell whether a rank is in a collective that waits for one which entered ``without`` and will enter no more.

    >>> cannot_end(["all_reduce(x)", "all_reduce(x)"], without=["all_reduce(x)"])
    True
    >>> cannot_end(["broadcast(x)"], without=[]), cannot_end(["all_reduce(x) among ranks 0,1"], without=[])
    (False, False)
    """
    among_all = not any(AMONG in call for call in [*entered, *without])
    return among_all and len(entered) > len(without) and waited_in([entered, without]) in NEED_EVERY_RANK
