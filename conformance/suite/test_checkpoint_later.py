"""A Function inside a checkpoint that runs forward again when backward asks for what was saved."""

from __future__ import annotations

from functools import partial

from torch.utils.checkpoint import checkpoint

from conformance.kit import expect
from conformance.kit.calls import differentiated
from conformance.kit.deviations import need
from conformance.kit.marks import clause
from conformance.kit.subject import Subject
from conformance.kit.variations.variants import holds_generator
from conformance.kit.variations.ways import by_way_of, works_in_place
from conformance.kit.world import World

#: The kind that PyTorch recommends. It imports the compiler.
WAY = partial(checkpoint, use_reentrant=False)


@clause("Function.checkpoint.agrees")
def test_gradients_are_the_same_where_forward_runs_again_later(subject: Subject, world: World) -> None:
    """In a checkpoint that is not reentrant gradients are the same, or an error comes."""
    compared = 0
    for sample, _ in differentiated(subject, world):
        if holds_generator(sample) or works_in_place(sample, world):
            continue
        run = sample.run()
        cotangents = run.cotangents(world)
        right = run.filled(run.gradients(cotangents))
        inside = by_way_of(sample, WAY)
        actual = world.try_call(lambda inside, given: inside.run().gradients(given), inside, cotangents)
        if actual is None:
            continue
        compared += 1
        for at, one, other in zip(run.leaves, run.filled(actual), right, strict=True):
            expect.close(one, other, f"gradient of {sample.name(at)} in a checkpoint, against that outside")
    need(compared, "it is refused under checkpoint, works in place or has a generator")
