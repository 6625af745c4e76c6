"""Represent simulated ranks in the controller: one process answers for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.core.outcomes import RankOutcome
from conformance.ranks.client import Forkserver
from conformance.ranks.group import RankGroup

WORKER = "conformance.ranks.simulated.worker"


class SimulatedGroup(RankGroup):
    """The ranks of a world in one process; a crash or a missed deadline concerns all of them."""

    processes = 1

    def outcomes(self, deadline: float, late: str) -> list[RankOutcome]:
        """Return the outcome of each rank, as the process reports it, or as it ended."""
        (found,), (reply,) = super().outcomes(deadline, late), super().details()
        try:
            told = [RankOutcome.from_json(one) for one in reply.get("by_rank", ())]
        except (TypeError, ValueError) as error:
            found, told = replace(found, outcome="crash", message=f"not a valid message: {error}"), []
        if len(told) == self.size:
            return [replace(one, output=found.output) for one in told]
        return [replace(found, rank=rank) for rank in range(self.size)]

    def details(self) -> list[dict[str, Any]]:
        """Return the process's whole reply to the last request, once for each rank."""
        return super().details() * self.size


def make_group(
    forkserver: Forkserver, size: int, backend: str, device: str, group: bool, debug: bool = False
) -> RankGroup:
    """Make the ranks of a run on simulated worlds: without a process group, a usual rank process."""
    if size == 1 and not group:
        return RankGroup(forkserver, size, backend, device, group)
    forkserver.preload([WORKER])
    return SimulatedGroup(forkserver, size, backend, device, group, worker=WORKER)
