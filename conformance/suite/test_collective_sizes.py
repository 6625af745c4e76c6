"""Collective: longer tensors than those of the samples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import torch

from conformance.core.signatures import Signature, Type
from conformance.kit import Deviation, Subject, World, all_ranks, clause, deadline, expect, need, ranks, world_group
from conformance.kit.spmd.claims import Claim, arguments_held, claims, signature_of
from conformance.kit.spmd.observation import observe
from conformance.kit.spmd.owed import GroupCall, backward
from conformance.kit.spmd.tensor_calls import TensorCall
from conformance.kit.spmd.wrong_gradients import wrong_gradient
from conformance.kit.typed_values import cotangents_by_types


@clause("Collective.backward.gradient")
@ranks(2, 3)
def test_gradients_of_longer_tensors(subject: Subject, world: World) -> None:
    """With over a thousand elements, gradients still follow from the types."""
    found = [(claim, signature_of(claim)) for claim in claims(subject, world)]
    right = [
        (claim, signature)
        for claim, signature in found
        if not claim.ranks_that_differ() and not wrong_gradient(claim, world)
    ]
    need(right, "the gradient is already wrong for the samples, which other tests report")
    tried = False
    for claim, signature in right:
        longer = _longer(claim, signature, world)
        if longer is None:
            continue
        tried = True
        differing = longer.ranks_that_differ()
        why = f"result {differing[0]} is not the same on all ranks" if differing else wrong_gradient(longer, world)
        if why:
            raise Deviation(f"{signature} is not kept with {longer.call.label}: {why}")
    need(tried, "it accepts no longer tensors, or its samples contain values that may depend on the sizes")


@clause("Collective.backward.types")
@ranks(2, 3)
@deadline(10)
def test_alike_gradients_of_longer_tensors(subject: Subject, world: World) -> None:
    """With over a thousand elements, gradients of type I or P are the same on all ranks, bit for bit.

    What ranks add up in different orders differs in the last bit, and only if there are many numbers for sure.
    """
    compared = 0
    for claim in claims(subject, world):
        signature = signature_of(claim)
        alike = [at for at, kind in enumerate(signature.arguments) if kind in (Type.I, Type.P)]
        call = _lengthened(claim, world) if alike else None
        found = world.try_call(_whole_gradients, call, signature, world) if call else None
        everyones = all_ranks(world).tensors(found) if call and found else []
        for at, (rank, gradients) in itertools.product(alike, enumerate(everyones[1:], 1)):
            one, first = gradients[at], everyones[0][at]
            # Gradients that are far apart are wrong, which backward.gradient says.
            if one is not None and first is not None and torch.allclose(one, first):
                compared += 1
                what = f"argument {at} of {claim.call.label}, made longer, of type {signature.arguments[at].value}"
                expect.equal(one, first, f"the gradient of {what}, on rank {rank} and on rank 0, bit for bit")
    need(compared, "no argument has type I or P, or longer tensors raise an error or have a wrong gradient")


def _whole_gradients(call: TensorCall, signature: Signature, world: World) -> list[torch.Tensor | None]:
    """Gradients on one rank, element by element and not along directions."""
    mine = arguments_held(call, world, signature)
    pairs = zip(call.as_called(mine), mine, strict=True)
    exact = [tensor.requires_grad_(given.requires_grad) for tensor, given in pairs]
    return _differentiate(
        lambda tensors: call.called([x.clone() for x in tensors], world_group()), exact, signature, world
    )


def _lengthened(claim: Claim, world: World) -> TensorCall | None:
    """Return the call with longer tensors; None on every rank if one rank has none: numbers may differ."""
    call = claim.call.lengthened()
    call = call and call.along_two()
    return call if all(world.exchange(call is not None)) else None


def _longer(claim: Claim, signature: Signature, world: World) -> Claim | None:
    """Return the same claim about longer tensors; None if they raise an error."""
    call = _lengthened(claim, world)
    if call is None or world.try_call(_along_directions, call, signature, world) is None:
        return None
    everyone = all_ranks(world)
    samples = everyone.agreed(call.samples())
    look = observe(everyone, call.in_group(world_group()), samples, [signature], call.precision)
    return replace(claim, call=call, look=look)


def _along_directions(call: TensorCall, signature: Signature, world: World) -> list[torch.Tensor | None]:
    mine = arguments_held(call, world, signature)
    return _differentiate(call.in_group(world_group()), mine, signature, world)


def _differentiate(
    run: GroupCall, mine: Sequence[torch.Tensor], signature: Signature, world: World
) -> list[torch.Tensor | None]:
    with torch.no_grad():
        results = run(mine)
    return backward(run, mine, cotangents_by_types(signature.results, results, world.rank))
