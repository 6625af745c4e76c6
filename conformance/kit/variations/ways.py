"""Call a sample in other ways: under a mode, or inside a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from conformance.kit import seeds
from conformance.kit.backward import has_changed
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import need
from conformance.kit.world import World


def by_way_of(sample: SampleCall, way: Callable[..., Any]) -> SampleCall:
    """Make the sample's call as ``way(call, *args)``."""
    call = sample.subject
    through = replace(call, call=lambda target, *args: way(call, *args), result=None, dim=0)
    return replace(sample, subject=through)


def under(sample: SampleCall, mode: Callable[[], AbstractContextManager[Any]]) -> SampleCall:
    """Make the sample's call under a mode. Its arguments are created outside the mode, as a module's parameters are."""

    def way(call: Callable[..., Any], *args: Any) -> Any:
        with mode():
            return call(*args)

    return by_way_of(sample, way)


def works_in_place(sample: SampleCall, world: World) -> bool:
    """Whether a call changes its arguments on some rank, so that a second call would start from other values."""
    return any(world.exchange(has_changed(sample.run())))


def need_repeatable(sample: SampleCall, world: World) -> None:
    """End the test as not applicable if the call works in place, or draws from a generator that its caller holds."""
    holds_generator = any(map(seeds.is_generator, sample.values)) or bool(seeds.held_generators(sample.holders))
    need(not (holds_generator or works_in_place(sample, world)), "it works in place or has a generator")
