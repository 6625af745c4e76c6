"""One tensor passed for two arguments, as attention to itself does."""

from __future__ import annotations

from itertools import combinations

import torch

from conformance.kit import Probe, Run, SampleCall, World, clause, expect, is_strided, need
from conformance.kit.tensors import form_of
from conformance.kit.variations.meaning import meant
from conformance.kit.variations.variants import repeatable


@clause("Function.backward.gradient")
def test_gradients_of_a_repeated_argument_add_up(probe: Probe) -> None:
    """One tensor passed for two arguments gets the sum of what two equal tensors get."""
    world, sample, tried = probe.world, repeatable(probe.sample, probe.world), 0
    for first, second in _alike(sample):
        both = world.try_call(meant, sample, {second: sample.values[first]})
        apart = world.try_call(both.run) if both else None
        shared = world.try_call(_sharing, both, first, second) if both else None
        if apart is None or shared is None or not _same_outputs(apart, shared, world):
            continue
        cotangents = apart.cotangents(world)
        actual = world.try_call(_gradient, shared, cotangents, [first])
        right = world.try_call(_gradient, apart, cotangents, [first, second])
        if actual is not None and right is not None:
            tried += 1
            what = f"gradient of one tensor passed for {sample.names[first]} and {sample.name(second)}"
            expect.close(actual, right, f"{what}, compared with the sum for two equal tensors,")
    need(tried, "no sample has two inputs of equal shape and dtype for which one tensor may be passed")


def _same_outputs(one: Run, other: Run, world: World) -> bool:
    """Whether two calls returned as many differentiable outputs with the same shapes, on all ranks."""
    shapes = [[list(output.shape) for output in run.outputs] for run in (one, other)]
    fine = bool(one.outputs) and one.places == other.places and shapes[0] == shapes[1]
    return all(world.exchange(fine))


def _alike(sample: SampleCall) -> list[tuple[int, int]]:
    """The pairs of differentiated arguments that one tensor could be passed for."""
    own = [at for at in sample.active if at in sample.top and is_strided(sample.values[at])]
    forms = {at: (form_of(sample.values[at]), sample.values[at].stride()) for at in own}
    return [(one, other) for one, other in combinations(own, 2) if forms[one] == forms[other]]


def _sharing(sample: SampleCall, first: int, second: int) -> Run | None:
    """Call the subject with one tensor at two places; None if it changes any argument in place."""
    leaves = {at: sample.values[at].detach().clone().requires_grad_() for at in sample.active if at != second}
    values = [leaves[at].clone() if at in leaves else plain for at, plain in enumerate(sample.plain)]
    values[second] = values[first]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    versions = [tensor._version for tensor in tensors]
    run = sample.called_with(values, leaves)
    return run if [tensor._version for tensor in tensors] == versions else None


def _gradient(run: Run, cotangents: list[torch.Tensor], places: list[int]) -> torch.Tensor:
    """The gradients of some inputs, added up."""
    found = dict(zip(run.leaves, run.filled(run.gradients(cotangents)), strict=True))
    return torch.stack([found[at] for at in places]).sum(0)
