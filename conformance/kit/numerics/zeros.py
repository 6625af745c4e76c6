"""Compute the derivative with respect to one element that is zero, if forward is smooth there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from conformance.kit import tolerances
from conformance.kit.calls import Run
from conformance.kit.numerics.derivatives import outputs_at
from conformance.kit.numerics.differences import central, shifted
from conformance.kit.numerics.nearby import rms_size
from conformance.kit.numerics.slopes import jacobian_scale, paired

#: Steps, next to the size of the input, that show a kink, each a tenth as long as the one before.
BENDING = (1e-2, 1e-3, 1e-4)
#: Finer ones, since forward may treat small numbers in another way.
STEPS = (*BENDING, 1e-6, 1e-8, 1e-10, 1e-12, 1e-15, 1e-20)
#: Those that are short even next to what is added to a number to keep it from zero, and how many in turn have to agree.
SHORT, IN_TURN = (1e-6, 1e-8, 1e-10, 1e-12, 1e-14, 1e-16, 1e-18), 3


@dataclass(frozen=True)
class _Slope:
    """Slope by one step in both directions, how far the function bends between them, and the rounding error of both."""

    value: float
    bend: float
    noise: float


def contradicted_by(
    run: Run, cotangents: list[torch.Tensor], at: int, element: int, gradient: float, eps: float
) -> float:
    """Return the derivative of the loss by an element that is zero, if it clearly differs from the gradient; otherwise
    NaN.

    It is known if steps of several sizes, forward and back, agree: not at a kink, a jump or an infinite slope, not if
    forward treats small numbers differently, and not if it ignores the element. A difference within gradcheck's
    tolerances does not count.
    """
    slopes = _slopes(run, cotangents, at, element, eps)
    if not any(slope.value or slope.bend for slope in slopes):  # outside of its domain, or rounded
        return float("nan")
    scale = max(abs(gradient), *(abs(slope.value) for slope in slopes[: len(BENDING)]))
    fine = [slope for slope in slopes if slope.noise <= tolerances.SLOPES_ALIKE * scale]
    bending = [slope for slope in fine if slope in slopes[: len(BENDING)]]
    if len(bending) < 2 or any(
        later.bend > tolerances.BEND_LEFT * slope.bend + later.noise + tolerances.SLOPES_ALIKE**2 * scale
        for slope, later in pairwise(bending)
    ):
        return float("nan")
    if all(abs(later.value) > tolerances.STEEPER * abs(slope.value) for slope, later in pairwise(bending)):
        return float("nan")
    values = [slope.value for slope in fine]
    off, alike = tolerances.OFF_AT_ZERO * scale, tolerances.SLOPES_ALIKE * scale
    is_clear = bending[-1].bend <= off and max(values) - min(values) <= alike
    derivative = bending[-1].value
    least = max(off, tolerances.GRADCHECK_ATOL * jacobian_scale(cotangents, [torch.ones(())]))
    return derivative if is_clear and abs(gradient - derivative) > least else float("nan")


def derivative_close_by(run: Run, cotangents: list[torch.Tensor], at: int, element: int, eps: float) -> float:
    """Return the derivative of the loss by an element that is zero, if ever shorter steps converge to one; otherwise
    NaN.

    The logarithm of a number plus a small constant has one that longer steps miss.
    """
    slopes = _slopes(run, cotangents, at, element, eps, SHORT)
    for first in range(len(slopes) - IN_TURN + 1):
        some = slopes[first : first + IN_TURN]
        values = [slope.value for slope in some]
        scale = max(map(abs, values))
        unsure = max(slope.noise for slope in some) + max(values) - min(values) + some[-1].bend
        if all(map(math.isfinite, values)) and unsure <= tolerances.SLOPES_ALIKE * scale:
            return values[-1]
    return float("nan")


def _slopes(
    run: Run, cotangents: list[torch.Tensor], at: int, element: int, eps: float, steps: Sequence[float] = STEPS
) -> list[_Slope]:
    value = run.sample.values[at].detach()

    def loss(step: float) -> torch.Tensor:
        return paired(cotangents, outputs_at(run, at, shifted(value, element, step)))

    here, size = loss(0.0), rms_size(value)
    moves = (loss(BENDING[0] * size) != here) | (loss(-BENDING[0] * size) != here)
    found = []
    for step in (relative * size for relative in steps):
        right, left = loss(step)[moves], loss(-step)[moves]
        size_of_terms = float(torch.cat([right, left, here[moves]]).square().sum().sqrt())
        noise = tolerances.LOSS_ROUNDINGS * eps * size_of_terms / step
        bend = float((right + left - 2 * here[moves]).abs().sum()) / step
        found.append(_Slope(float(central(right, left, step).sum()), bend, noise))
    return found


def is_affine(run: Run, at: int) -> bool:
    """Whether results change evenly as an input grows, as those of a product with it do."""
    value = run.sample.values[at].detach()
    none, twice = (outputs_at(run, at, factor * value) for factor in (0, 2))
    triples = zip(none, run.outputs, twice, strict=True)
    return all(
        low.shape == high.shape == middle.shape
        and torch.allclose(low + high, 2 * middle.detach(), rtol=tolerances.AFFINE)
        for low, middle, high in triples
    )
