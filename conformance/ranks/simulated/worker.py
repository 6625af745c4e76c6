"""Run the process of a simulated world: import the subject once, run test bodies on all ranks, reply for each."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from conformance.core.outcomes import worst
from conformance.core.worlds import seed_of
from conformance.kit.answers import ANSWERED, FUNCTIONS
from conformance.kit.attempt import call_body
from conformance.kit.process import isolation
from conformance.kit.process.growth import Growth
from conformance.kit.world import World
from conformance.ranks import worker
from conformance.ranks.simulated.simulation import Simulation
from conformance.ranks.worker import Rank, no_warnings


def main(configuration: dict[str, Any], descriptors: dict[str, int]) -> int:
    """Be all ranks of a world until the controller hangs up."""
    return worker.main(configuration, descriptors, SimulatedRanks)


class SimulatedRanks(Rank):
    """All ranks of a world, in this process; it answers the controller's requests one by one."""

    def set_up(self, configuration: dict[str, Any], listener: int | None) -> None:
        """Start the threads of the ranks, and their process group."""
        self.simulation = Simulation(configuration["size"], seed_of(configuration["backend"]))
        self.growth = Growth()
        self.left: dict[int, dict[str, Any]] = {}

    def look(self, kind: str) -> None:
        """Make the subject's samples, or compare its types with a call, on every rank."""
        self.simulation.expect(lambda world: self.look_in(world, kind))

    def test(self, request: dict[str, Any]) -> None:
        """Run one test body on every rank; report each outcome and the changes of the process."""
        no_warnings()
        changed: dict[int, list[str]] = {}

        def running(world: World) -> object:
            before = self.left.get(world.rank) or isolation.snapshot()
            asking = replace(world, resolution=request["resolution"])
            offered = {"subject": self.subject, "world": asking, "in_a_copy": None, **request["cases"]}
            try:
                return call_body(request["module"], request["function"], request["arguments"], offered)
            finally:
                self.left[world.rank] = after = isolation.snapshot()
                changed[world.rank] = isolation.changed_facts(before, after)

        with contextlib.ExitStack() as stack:
            if request["ended_at_once"]:
                for world in self.simulation.worlds:
                    stack.enter_context(world.forgetting())
            outcomes = self.simulation.run(running, at_once=request["ended_at_once"])
        grown = self.growth.differences()
        names = FUNCTIONS.get(self.subject.label, ()) if self.subject else ()
        told = [
            replace(outcome, changed=(*changed.get(outcome.rank, ()), *grown), functions=names).to_json()
            for outcome in outcomes
        ]
        isolation.stop_timer_and_flush()
        self.channel.send(
            {
                "event": "done",
                "serial": request["serial"],
                "outcome": worst(outcome.outcome for outcome in outcomes),
                "changed": sorted({name for names in changed.values() for name in names} | set(grown)),
                "left_behind": self.simulation.is_left_behind,
                "answered": bool(ANSWERED),
                "by_rank": told,
            }
        )
