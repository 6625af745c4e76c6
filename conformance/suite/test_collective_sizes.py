"""Collective: longer tensors than those of the samples."""

from __future__ import annotations

from dataclasses import replace

import torch

from conformance.core.signatures import Signature
from conformance.kit.claims import Claim, by_types, claims, signature_of, wrong_gradient
from conformance.kit.deviations import Deviation, need
from conformance.kit.marks import clause, deadline, ranks
from conformance.kit.process_groups import all_ranks, whole
from conformance.kit.spmd.observation import differs, observe
from conformance.kit.spmd.owed import backward
from conformance.kit.spmd.values import cotangent, differentiable
from conformance.kit.subject import Subject
from conformance.kit.tensor_calls import TensorCall, refused
from conformance.kit.world import World


@clause("Collective.backward.gradient")
@ranks(2, 3)
@deadline(10)
def test_gradients_of_longer_tensors(subject: Subject, world: World) -> None:
    """With over a thousand elements, gradients are those that the types owe too."""
    found = [(claim, signature_of(claim)) for claim in claims(subject, world)]
    right = [
        (claim, signature)
        for claim, signature in found
        if not claim.ranks_that_differ() and not wrong_gradient(claim, world)
    ]
    need(right, "the samples themselves are wrong, and other tests say so")
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
    need(tried, "it takes no longer tensors, or passes what may be tied to the sizes")


def _longer(claim: Claim, signature: Signature, world: World) -> Claim | None:
    """The same claim about longer tensors; None where they are refused."""
    call = claim.call.lengthened()
    if call is None or refused(world, lambda: _differentiate(call, signature, world)):
        return None
    everyone = all_ranks(world)
    samples = everyone.agreed(call.samples())
    look = observe(everyone, call.in_group(whole()), samples, differs(signature), call.precision)
    return replace(claim, call=call, look=look)


def _differentiate(call: TensorCall, signature: Signature, world: World) -> None:
    run = call.in_group(whole())
    mine = by_types(all_ranks(world).agreed(call.samples()), signature, world.rank)
    with torch.no_grad():
        results = run(mine)
    given = [
        cotangent(kind, y, world.rank, at) if differentiable(y) else None
        for at, (kind, y) in enumerate(zip(signature.results, results, strict=True))
    ]
    backward(run, mine, given)
