"""Looks made once more without overlap: a collective that is under way fills its tensors while others run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from conformance.kit.calls import SampleCall
from conformance.kit.observation.collectives import EndedAtOnceMode
from conformance.kit.observation.looks import Look
from conformance.kit.observation.witness import Call
from conformance.kit.observation.witnessing import witnessing
from conformance.kit.world import World


def calls_without_overlap(
    looks: Sequence[Look], action: Callable[[SampleCall], object], world: World
) -> Iterator[Call]:
    """Observe each sample's calls if every collective ends before the call that starts it returns.

    Args:
        looks: what was seen before, on every rank.
        action: what to do with each sample.
        world: the ranks; each of them asks.
    """
    functions = {call.function for look in looks for call in look.witness.calls}
    for look in looks:
        with witnessing(*functions) as witness, EndedAtOnceMode():
            world.try_call(action, look.sample)
        yield from witness.calls
