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
from conformance.kit.spmd.owed import backward, forth_and_back
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
    exact = [x.requires_grad_(own.requires_grad) for x, own in zip(call.as_called(mine), mine, strict=True)]

    def run(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return call.called([x.clone() for x in tensors], world_group())

    with torch.no_grad():
        results = run(exact)
    return backward(run, exact, cotangents_by_types(signature.results, results, world.rank))


def _lengthened(claim: Claim, world: World) -> TensorCall | None:
    """Return the call with longer tensors; None on every rank if one rank has none: numbers may differ."""
    call = claim.call.lengthened()
    call = call and call.along_two()
    return call if all(world.exchange(call is not None)) else None


def _longer(claim: Claim, signature: Signature, world: World) -> Claim | None:
    """Return the same claim about longer tensors; None if they raise an error."""
    call = _lengthened(claim, world)
    if call is None:
        return None
    everyone, run = all_ranks(world), call.in_group(world_group())
    if world.try_call(forth_and_back, run, arguments_held(call, world, signature)) is None:
        return None
    look = observe(everyone, run, everyone.agreed(call.samples()), [signature], call.precision)
    return replace(claim, call=call, look=look)
