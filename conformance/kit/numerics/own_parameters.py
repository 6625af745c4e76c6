"""Check the gradients of a module's parameters that are arguments beside it: they are moved in place and restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from conformance.kit import expect
from conformance.kit.calls import Run, SampleCall
from conformance.kit.gradients import grads_kept
from conformance.kit.numerics.gradient_checks import result_epsilon
from conformance.kit.numerics.nearby import directions
from conformance.kit.numerics.slopes import Comparison, compare, epsilon, inner, paired, reach
from conformance.kit.world import World


def expect_derivative_of_parameters(sample: SampleCall, world: World) -> dict[int, bool]:
    """Expect each parameter's gradient to be what differences say; for each, whether they could tell.

    They say nothing of one without a gradient: backward may add it to ``grad`` itself.
    """
    told = dict.fromkeys(sample.of_modules, False)
    if not told:
        return told
    run = sample.run()
    cotangents = run.cotangents(world)
    own = replace(run, leaves={at: run.values[at] for at in told})
    with grads_kept(own.leaves.values()):
        gradients = dict(zip(told, own.gradients(cotangents), strict=True))
    for at, gradient in gradients.items():
        if gradient is None:
            continue
        slopes = list(_slopes(world, run, cotangents, at, gradient))
        wrong = next((slope for slope in slopes if slope.verdict == "differs"), None)
        expect.that(
            wrong is None,
            f"derivative of the loss along a random direction of {sample.name(at)}, which belongs to a module",
            wrong and f"{wrong.analytic:.9g} by backward",
            wrong and f"{wrong.by_differences}, by differences of forward",
        )
        told[at] = any(slope.verdict == "agrees" for slope in slopes)
    return told


def _slopes(
    world: World, run: Run, cotangents: list[torch.Tensor], at: int, gradient: torch.Tensor
) -> Iterator[Comparison]:
    parameter = run.values[at]
    eps = max(result_epsilon(world, run), epsilon([parameter]))
    for direction in directions(world, parameter.detach()):

        def loss(step: float, direction: torch.Tensor = direction) -> torch.Tensor:
            with _moved(parameter, step * direction):
                tensors = run.sample.run().tensors
                return paired(cotangents, [tensors[place] for place in run.places])

        yield compare(world, loss, inner(gradient, direction), eps, reach(cotangents, [direction]))


@contextmanager
def _moved(parameter: torch.Tensor, move: torch.Tensor) -> Iterator[None]:
    kept = parameter.detach().clone()
    try:
        with torch.no_grad():
            parameter.add_(move)
        yield
    finally:
        with torch.no_grad():
            parameter.copy_(kept)
