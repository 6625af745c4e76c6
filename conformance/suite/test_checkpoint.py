"""A Function inside a checkpoint: forward runs again before backward, and the gradients stay the same."""

from __future__ import annotations

import inspect
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from conformance.kit import expect
from conformance.kit.calls import differentiated
from conformance.kit.deviations import need
from conformance.kit.marks import clause
from conformance.kit.subject import Subject
from conformance.kit.variations.variants import holds_generator
from conformance.kit.variations.ways import by_way_of, works_in_place
from conformance.kit.world import World


@clause("Function.checkpoint.agrees")
def test_gradients_are_the_same_under_checkpoint(subject: Subject, world: World) -> None:
    """Run again in backward, forward leads to the same gradients, or an error comes."""
    compared = 0
    for sample, _ in differentiated(subject, world):
        if holds_generator(sample) or works_in_place(sample, world) or not set(sample.active) <= sample.top:
            continue
        run = sample.run()
        if not isinstance(run.result, torch.Tensor | tuple):
            continue  # a reentrant checkpoint does not look into other containers
        cotangents = run.cotangents(world)
        right = run.filled(run.gradients(cotangents))
        # The other kind, and the wrapper of both, import the compiler, which takes seconds.
        inside = by_way_of(sample, partial(inspect.unwrap(checkpoint), use_reentrant=True))
        actual = world.try_call(lambda inside, given: inside.run().gradients(given), inside, cotangents)
        if actual is None:
            continue
        compared += 1
        for at, one, other in zip(run.leaves, run.filled(actual), right, strict=True):
            expect.close(one, other, f"gradient of {sample.name(at)} in a reentrant checkpoint, against that outside")
    need(compared, "it is refused under checkpoint, works in place, has a generator, or takes tensors in containers")
