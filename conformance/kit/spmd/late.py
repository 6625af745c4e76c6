"""Compare results and gradients at once and in the end, if one rank is late."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import torch

from conformance.kit.process_groups import world_group
from conformance.kit.spmd.claims import Claim, signature_of
from conformance.kit.spmd.owed import backward
from conformance.kit.typed_values import cotangents_by_types
from conformance.kit.world import World

#: How late one rank is: long enough for the others to return without it, if they do not wait. And how long what a rank
#: left running may take to end, once every rank has returned (seconds, if every process has a core).
LATE, SETTLED = 0.025, 0.01
AnyTensor = TypeVar("AnyTensor", torch.Tensor, torch.Tensor | None)


def results_with_late(
    claim: Claim, late: int | None, world: World
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """Call on every rank; return this rank's arguments, its results, and a copy of the results at once.

    One rank may be late. Every rank calls this.
    """
    mine = claim.held(world)
    # As in training: a Function may do otherwise where no gradient is needed.
    exact = [x.requires_grad_(own.requires_grad) for x, own in zip(claim.call.as_called(mine), mine, strict=True)]
    given = [x.clone() for x in exact]
    _come(late, world)
    results = claim.call.called(given, world_group())
    return given, results, copies(results)


def _come(late: int | None, world: World) -> None:
    """Let all ranks arrive together, except the late one."""
    world.exchange(None)
    if world.rank == late:
        world.sleep(LATE * _share())


def settle(world: World) -> None:
    """Let every rank return, and let work that it left running end."""
    world.exchange(None)
    world.sleep(SETTLED * _share())


def _share() -> float:
    """How many processes share a core, of one to eight: each gets so much less done in the same time."""
    return min(8.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def are_results_left_behind(claim: Claim, world: World) -> bool:
    """Whether a result changes on some rank after it was returned; every rank calls this."""
    _, results, at_once = results_with_late(claim, world.size - 1, world)
    settle(world)
    return not all(world.exchange(are_near(at_once, results)))


def copies(tensors: Sequence[AnyTensor]) -> list[AnyTensor]:
    """Return the tensors' present values."""
    return [None if tensor is None else tensor.detach().clone() for tensor in tensors]


def gradients_with_late(
    claim: Claim, late: int | None, world: World
) -> tuple[list[torch.Tensor | None], list[torch.Tensor | None]]:
    """Compute this rank's gradients: as backward returns them, and the same tensors once every rank has long returned.

    One rank may be late in backward. Every rank calls this.
    """
    mine = claim.held(world)
    # What it is called with, not what is differentiated by: a copy of its gradient would not change any more.
    exact = [x.requires_grad_(own.requires_grad) for x, own in zip(claim.call.as_called(mine), mine, strict=True)]
    with torch.no_grad():
        results = claim.call.called([x.clone() for x in exact], world_group())
    given = cotangents_by_types(signature_of(claim).results, results, world.rank)

    def run(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        found = claim.call.called([x.clone() for x in tensors], world_group())
        _come(late, world)
        return found

    gradients = backward(run, exact, given)
    at_once = copies(gradients)
    settle(world)
    return at_once, copies(gradients)


def are_gradients_left_behind(claim: Claim, world: World) -> bool:
    """Whether a gradient changes on some rank after backward returned it; every rank calls this."""
    at_once, in_the_end = gradients_with_late(claim, world.size - 1, world)
    return not all(world.exchange(are_near(at_once, in_the_end)))


def are_near(some: Sequence[torch.Tensor | None], others: Sequence[torch.Tensor | None]) -> bool:
    """Whether tensors are the same up to rounding."""
    return all(
        one is other if one is None or other is None else torch.allclose(one, other, equal_nan=True)
        for one, other in zip(some, others, strict=True)
    )
