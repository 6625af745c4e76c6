"""Find where the collectives of the ranks differ, for each process group by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.core.outcomes import AMONG, RankOutcome

NOTHING_MORE = "nothing more"
#: Methods of a process group that move data; c10d's Python functions and the autograd ones all call them.
METHODS = (
    "allgather", "allgather_into_tensor_coalesced", "allgather_coalesced", "_allgather_base", "allreduce",
    "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv", "recv_anysource",
    "reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter", "send",
    "all_gather_single", "all_to_all_single", "reduce_scatter_single",
)  # fmt: skip
#: How messages name collectives, whatever release or layer calls them: as torch.distributed does.
PUBLIC = {
    "allgather": "all_gather", "allgather_coalesced": "all_gather_coalesced", "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced", "alltoall": "all_to_all",
    "_allgather_base": "all_gather_into_tensor", "all_gather_single": "all_gather_into_tensor",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor", "alltoall_base": "all_to_all_single",
    "_reduce_scatter_base": "reduce_scatter_tensor", "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
}  # fmt: skip
#: Calls that one rank issues and another answers.
POINT_TO_POINT = ("send", "recv", "recv_anysource")
#: The beginnings of collectives in which each rank may send parts of different sizes.
EXCHANGES = ("all_to_all",)
ROOT_ONLY = re.compile(r",? ?\[\[.*?\]\],? ?|,? ?\[\],? ?")


@dataclass(frozen=True)
class Difference:
    """The first collective of a group in which its ranks differ.

    Attributes:
        called: what each rank of the group called there.
        place: how many collectives of the group they had called before.
        group: the ranks of the group, as a collective's line names them; empty for all ranks.
    """

    called: Mapping[int, str]
    place: int
    group: str

    def __str__(self) -> str:
        each = "; ".join(f"rank {rank} called {text}" for rank, text in self.called.items())
        return f"the ranks' collectives{self.group and AMONG}{self.group} differ at number {self.place + 1}: {each}"


def first_difference(outcomes: Sequence[RankOutcome]) -> Difference | None:
    """Find the first collective in which ranks of a group differ, groups of all ranks first; None if they agree."""
    groups = dict.fromkeys(_group(call) for found in outcomes for call in found.collectives)
    differences = (_difference(outcomes, group) for group in sorted(groups, key=bool))
    return next(filter(None, differences), None)


def at_odds(outcomes: Sequence[RankOutcome]) -> bool:
    """Tell whether two ranks issued different collectives, rather than one rank issuing none."""
    found = first_difference(outcomes)
    return found is not None and len(set(found.called.values()) - {NOTHING_MORE}) > 1


def _difference(outcomes: Sequence[RankOutcome], group: str) -> Difference | None:
    members = [found for found in outcomes if not group or str(found.rank) in group.split(",")]
    answered = _is_answered(members, group)
    calls = {found.rank: list(_calls(found, group, answered)) for found in members}
    for place in range(max(map(len, calls.values()), default=0)):
        here = {rank: called[place] if place < len(called) else NOTHING_MORE for rank, called in calls.items()}
        if len({compared(text) for text in here.values()}) > 1:
            return Difference(here, place, group)
    return None


def _calls(found: RankOutcome, group: str, answered: bool) -> Iterator[str]:
    """Yield a rank's calls in a group, without sends and receives if each was answered: ranks may differ in those."""
    own = (call for call in found.collectives if _group(call) == group)
    return (call for call in own if not (answered and name_of(call) in POINT_TO_POINT))


def _is_answered(members: Sequence[RankOutcome], group: str) -> bool:
    """Tell whether there is a receive for each send of a group."""
    names = Counter(name_of(call) for found in members for call in found.collectives if _group(call) == group)
    return 2 * names["send"] == sum(names[name] for name in POINT_TO_POINT)


def _group(call: str) -> str:
    return call.partition(AMONG)[2]


def public_name(method: str) -> str:
    """Return the name of a collective for a message, from that of a method or an operator.

    >>> public_name("_reduce_scatter_base_"), public_name("allreduce")
    ('reduce_scatter_tensor', 'all_reduce')
    """
    name = method.removesuffix("_")
    return PUBLIC.get(name, name)


def name_of(call: str) -> str:
    """Return the name of a collective from its recorded line."""
    return call.partition("(")[0]


def compared(call: str) -> str:
    """Remove from a recorded collective what may differ by rank: the list that only a root passes, and uneven parts.

    >>> compared("scatter([2 float32], [[2 float32, 2 float32]])") == compared("scatter([2 float32], [])")
    True
    >>> compared("all_to_all_single(3 float32, 2 float32, [], [])")
    'all_to_all_single'
    """
    if call.startswith(EXCHANGES):
        return name_of(call)
    return ROOT_ONLY.sub("", call) if call.startswith(("scatter(", "gather(")) else call
