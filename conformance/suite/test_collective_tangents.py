"""Collective, forward mode: tangents of all ranks together."""

from __future__ import annotations

import torch

from conformance.kit import NO_JVP, Deviation, Subject, World, clause, deadline, expect, need, world_group
from conformance.kit.numerics.differences import central
from conformance.kit.numerics.slopes import compare_slope, epsilon, inner, jacobian_scale, paired
from conformance.kit.spmd.claims import Claim, claims
from conformance.kit.spmd.tensor_calls import jvp_of
from conformance.kit.variations.transforms import Direction


@clause("Function.jvp.tangent")
@deadline(10)
def test_tangents_are_those_of_all_ranks(subject: Subject, world: World) -> None:
    """The tangent of every result is what differences of forward say if the arguments of all ranks move at once."""
    need(subject.is_typed, "its tensors have no SPMD types")
    need(subject.defines("jvp"), NO_JVP)
    agreed = 0
    for claim in claims(subject, world):
        mine = [x.detach() for x in claim.held(world)]
        moving = claim.directions(mine, world.rank)
        actual = jvp_of(claim.call.in_group(world_group()), mine, moving)
        for at in claim.observed.differentiable:
            agreed += _expect_tangent(claim, mine, moving, at, actual[at], world)
    need(agreed, "not smooth enough near any sample to measure a derivative by finite differences")


def _expect_tangent(
    claim: Claim, mine: list[torch.Tensor], moving: Direction, at: int, tangent: torch.Tensor, world: World
) -> bool:
    """Whether a result's tangent is its derivative, as far as differences can tell.

    Raises:
        Deviation: it is not.
    """
    weight = world.tensor(world.rank, tuple(tangent.shape), tangent.dtype, "weight", at)

    def moved(step: float) -> torch.Tensor:
        run = claim.call.in_group(world_group())
        return run([x + step * moving[place] if place in moving else x for place, x in enumerate(mine)])[at]

    def loss(step: float) -> torch.Tensor:
        return paired([weight], [moved(step)])

    precision = max(claim.call.precision, epsilon([tangent]))
    seen = compare_slope(world, loss, inner(weight, tangent), precision, jacobian_scale([weight], moving.values()))
    if seen.verdict == "differs":
        step = precision ** (1 / 3)
        expected = central(moved(step).detach(), moved(-step).detach(), step)
        raise Deviation(
            f"tangent of result {at} of {claim.call.label} on rank {world.rank} of {world.size}, where the arguments "
            f"of all ranks have tangents; added up over the ranks its slope is {seen.analytic:.9g} by jvp and "
            f"{seen.by_differences} by differences of forward",
            *expect.shown_apart(tangent, expected),
        )
    return seen.verdict == "agrees"
