"""Measure the precision that a call uses internally, which its dtypes may not show."""

from __future__ import annotations

import torch

from conformance.kit import tolerances
from conformance.kit.calls import SampleCall
from conformance.kit.numerics.nearby import drawn_direction, moved_along, random_direction
from conformance.kit.tensors import dense, differentiable
from conformance.kit.world import World

#: A step that single precision can just tell, and half precision cannot.
_STEP = 4 * tolerances.SINGLE
#: A tensor a step back, here, and a step ahead.
Way = tuple[torch.Tensor, ...]


def working_epsilon(sample: SampleCall, world: World) -> float:
    """Return the machine epsilon that a call uses internally, if its dtypes promise a finer one; otherwise 0.

    Two ways to compute the same, such as a batch and its samples, may differ by so much rounding. Small steps of the
    inputs and the incoming gradients show it: in double precision results and gradients follow them evenly, in single
    precision they jump, and in half precision gradients stay as they are.
    """
    found = world.try_call(lambda: [_stepped(sample, world, step) for step in (-_STEP, 0.0, _STEP)])
    if found is None:  # it does not take what lies that near
        return 0.0
    results, gradients = (list(zip(*parts, strict=True)) for parts in zip(*found, strict=True))
    if _is_still(gradients):
        return tolerances.BFLOAT
    return tolerances.SINGLE if any(map(_jumps, [*results, *gradients])) else 0.0


def _stepped(sample: SampleCall, world: World, step: float) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Compute results and gradients a step away, in the inputs and in the incoming gradients."""
    run = moved_along(sample, drawn_direction(sample, world), step).run()
    results = [dense(tensor.detach()).clone() for tensor in run.tensors if differentiable(tensor)]
    if not run.outputs:
        return results, []
    given = [
        cotangent + step * random_direction(world, cotangent, at) for at, cotangent in enumerate(run.cotangents(world))
    ]
    return results, run.filled(run.gradients(given))


def _is_still(gradients: list[Way]) -> bool:
    """Whether most gradients in single or double precision stay the same."""
    fine = [way for way in gradients if torch.finfo(way[1].dtype).eps <= tolerances.SINGLE]
    count = sum(int((here != 0).sum()) for _, here, _ in fine)
    still = sum(int(((here != 0) & (back == here) & (ahead == here)).sum()) for back, here, ahead in fine)
    return count > 0 and still >= tolerances.STILL * count


def _jumps(way: Way) -> bool:
    """Whether a tensor in double precision does not follow a straight line."""
    back, here, ahead = way
    if torch.finfo(here.dtype).eps >= tolerances.SINGLE or here.numel() == 0:
        return False
    return bool((ahead - 2 * here + back).abs().max() > tolerances.STRAIGHT_IN_DOUBLE * here.abs().max())
