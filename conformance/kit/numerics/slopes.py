"""Compare an analytic slope with central differences: it agrees, differs, or cannot be judged at this point.

Across ranks all inputs are moved at once and all losses are added up: the ranks together are one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch

from conformance.kit import tolerances
from conformance.kit.numerics.differences import beside_jumps, central
from conformance.kit.tensors import differentiable, to_double
from conformance.kit.world import World

#: ``loss(t)`` has the terms whose sum is the loss, a step ``t`` along the direction.
LossAlong = Callable[[float], torch.Tensor]
#: The terms of the loss after a step to the one side, and to the other.
Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class SlopeJudgement:
    """Verdict of differences about an analytic slope: agrees, differs, unclear, or flat (no change at all)."""

    verdict: str
    analytic: float
    numeric: float = float("nan")
    #: How much a long and a short step disagree, relative to the terms of the loss.
    roughness: float = 0.0
    #: The error of the slope by differences that rounding in forward may cause.
    noise: float = 0.0
    #: The size of the terms of the loss.
    size: float = 0.0

    @property
    def by_differences(self) -> str:
        """Return the slope by differences and its noise, for a message."""
        return f"{self.numeric:.9g} (noise {self.noise:.1g})"

    @property
    def is_shown(self) -> bool:
        """Whether slope and deviation stand out from the noise of forward, and the deviation matters to the loss."""
        least = tolerances.BEYOND_NOISE * self.noise
        return abs(self.numeric) > least and not self.deviation <= max(least, tolerances.GRADCHECK_RTOL * self.size)

    @property
    def deviation(self) -> float:
        """Return the difference of the two slopes."""
        return abs(self.analytic - self.numeric)


def compare_slope(world: World, loss: LossAlong, analytic: float, eps: float, reach: float = 1.0) -> SlopeJudgement:
    """Compare an analytic slope with differences of a loss.

    A difference within gradcheck's default tolerances is unclear unless it exceeds the noise of forward. A step to
    numbers that forward rejects decides nothing either.

    Args:
        world: the ranks; each contributes its own loss and slope.
        loss: the loss along the direction.
        analytic: this rank's part of the analytic slope.
        eps: the machine epsilon that the loss is computed in.
        reach: how much the slope grows if every element of the Jacobian grows by one.
    """
    found = _compared(world, loss, analytic, eps)
    forgiven = abs(found.analytic - found.numeric) <= tolerances.GRADCHECK_ATOL * sum(world.exchange(reach))
    if found.verdict == "differs" and forgiven and not found.is_shown:
        return replace(found, verdict="unclear")
    return found


def _compared(world: World, loss: LossAlong, analytic: float, eps: float) -> SlopeJudgement:
    """Compare at ever coarser steps, until one is conclusive; no change at all, twice, is a slope of zero."""
    slope, flat = sum(world.exchange(analytic)), 0
    for precision in (eps, *(coarse for coarse in tolerances.COARSER if coarse > 10 * eps)):
        seen = _judged(world, loss, slope, precision)
        if seen.verdict == "flat":
            # No change at all: a step function, or one that rounds its input. A longer step tells them apart.
            flat += 1
            if flat == 2:
                return replace(seen, verdict="differs", numeric=0.0)
        elif seen.verdict == "agrees":
            # Still no change, and noise that would hide the slope: that is no agreement.
            return replace(seen, verdict="unclear") if flat and seen.numeric == 0 else seen
        elif seen.verdict == "differs" and flat == 0:
            found = _confirmed(world, loss, seen, precision)
            is_fine = found.verdict == "differs" and eps <= tolerances.SINGLE
            is_right = is_fine and _is_right_between_jumps(world, loss, found)
            return replace(found, verdict="unclear") if is_right else found
    return SlopeJudgement("unclear", slope)


def _confirmed(world: World, loss: LossAlong, seen: SlopeJudgement, precision: float) -> SlopeJudgement:
    """Confirm a difference: with another step, and as if the Function computed in single precision inside."""
    again = _judged(world, loss, seen.analytic, precision, tolerances.OTHER_STEP)
    if again.verdict != "differs":
        return SlopeJudgement("unclear", seen.analytic)
    if precision < tolerances.SINGLE and max(seen.roughness, again.roughness) > tolerances.ROUGH:
        coarse = _judged(world, loss, seen.analytic, tolerances.COARSER[0])
        return coarse if coarse.verdict == "agrees" else seen
    return seen


def _is_right_between_jumps(world: World, loss: LossAlong, seen: SlopeJudgement) -> bool:
    """Tell whether short steps show what backward claims: longer ones cross jumps, as where forward rounds to a grid.

    The steps are long enough to show a slope if forward computes in single precision. Of many terms some still jump, to
    one side: they count by what the other side says.
    """
    here = loss(0.0)
    for step in tolerances.BETWEEN_JUMPS:
        moved = _both_ways(world, loss, step)
        if moved and all(terms.shape == here.shape for terms in moved):
            (change,), _ = _together(world, beside_jumps(moved[1], here, moved[0]))
            if abs(change / step - seen.analytic) <= tolerances.GRADCHECK_RTOL * seen.deviation:
                return True
    return False


def _judged(world: World, loss: LossAlong, slope: float, precision: float, shrink: float = 1.0) -> SlopeJudgement:
    """Compare a slope with differences at one step; a kink or a jump nearby bounds their error."""
    here = loss(0.0)
    (middle,), weight = _together(world, here)
    step = shrink * _step(slope, weight, precision)
    far = _both_ways(world, loss, step)
    if far is None:
        return SlopeJudgement("unclear", slope)
    (right, left), _ = _together(world, *far)
    value = central(right, left, step)
    noise = tolerances.LOSS_ROUNDINGS * precision * weight / step
    near = noise + curvature(precision) * max(abs(value), abs(slope))
    if not math.isfinite(value) or not math.isfinite(weight):
        return SlopeJudgement("unclear", slope)
    if abs(slope - value) <= near and math.isfinite(slope):
        return SlopeJudgement("agrees", slope, value, noise=noise)
    if right == middle == left:
        return SlopeJudgement("flat", slope, value, noise=noise, size=weight)
    close = _both_ways(world, loss, step / 2)
    if close is None:
        return SlopeJudgement("unclear", slope)
    (near_right, near_left), _ = _together(world, *close)
    # A kink shows in what right and left say, a jump in what a long and a short step say; both bound the error.
    kinks = sum(world.exchange(_kinks(here, far, close, precision)))
    bend = max(abs(right - 2 * middle + left), kinks) / step
    jump = abs(central(near_right, near_left, step / 2) - value)
    off = tolerances.BENDS * bend + tolerances.JUMPS * jump
    smooth = tolerances.SMOOTH * (abs(value) + weight)
    differs = abs(slope - value) > near + off if math.isfinite(slope) else off <= smooth
    verdict = "differs" if differs else "unclear"
    return SlopeJudgement(verdict, slope, value, jump / weight if weight else 0.0, max(noise, bend, jump), weight)


def _both_ways(world: World, loss: LossAlong, step: float) -> Pair | None:
    """Compute the loss after a step to either side; None if forward raises on any rank."""
    return world.try_call(lambda: (loss(step), loss(-step)))


def _step(slope: float, weight: float, precision: float) -> float:
    """Choose the step: the cube root of the precision balances rounding and curvature; shorter in a steep place."""
    step: float = precision ** (1 / 3)
    if abs(slope) > tolerances.STEEP * weight > 0 and math.isfinite(slope):
        return step * tolerances.STEEP * weight / abs(slope)  # a longer one would leave the place
    return step


def curvature(precision: float) -> float:
    """Estimate the error that the curvature of forward causes in differences over such a step, next to the slope."""
    curved: float = tolerances.CURVED * precision ** (2 / 3)
    return max(tolerances.LEAST_CURVATURE, curved)


def _kinks(here: torch.Tensor, far: Pair, close: Pair, precision: float) -> float:
    """Sum how far the terms bend at kinks; in the sum of the terms, bends of opposite signs would cancel.

    Over half the step, a smooth term bends a quarter as much, a kink half as much.
    """
    if any(terms.shape != here.shape for terms in (*far, *close)):
        return 0.0
    rounding = tolerances.BENT_ROUNDINGS * precision * here.abs()
    bends = (4 * (sum(close) - 2 * here) - (sum(far) - 2 * here)).abs() - rounding
    return float(bends.clamp_min(0).sum())


def _together(world: World, *losses: torch.Tensor) -> tuple[list[float], float]:
    """Return losses summed over all ranks, and the size of their terms, to which rounding is proportional."""
    ranks = world.exchange([[float(terms.sum()), float(terms.square().sum().sqrt())] for terms in losses])
    totals = [tuple(map(sum, zip(*(rank[at] for rank in ranks), strict=True))) for at in range(len(losses))]
    return [total for total, _ in totals], max(weight for _, weight in totals)


def paired(cotangents: list[torch.Tensor], outputs: list[torch.Tensor]) -> torch.Tensor:
    """Return the terms, in double precision, of the loss that cotangents define."""
    pairs = zip(cotangents, outputs, strict=True)
    terms = [(to_double(cotangent).conj() * to_double(output.detach())).real for cotangent, output in pairs]
    return torch.cat([torch.zeros(0, dtype=torch.float64, device="cpu"), *(each.reshape(-1).cpu() for each in terms)])


def inner(gradient: torch.Tensor | None, direction: torch.Tensor) -> float:
    """Return the slope that a gradient claims along a direction; this product fits PyTorch's complex gradients."""
    if gradient is None:
        return 0.0
    along = to_double(direction)
    slopes = (to_double(gradient.detach()).conj() * along).real
    return float(torch.where(along == 0, 0.0, slopes).sum())  # 0 * inf would be NaN: ignore elements that are not moved


def jacobian_scale(cotangents: Iterable[torch.Tensor], directions: Iterable[torch.Tensor]) -> float:
    """Return how much the slope along directions grows if every element of the Jacobian grows by one."""
    weight, step = (
        sum(float(to_double(tensor.detach()).abs().sum()) for tensor in tensors) for tensors in (cotangents, directions)
    )
    return weight * step


def rounding_of_slopes(tensors: list[torch.Tensor]) -> float:
    """Return how far the slopes of jvp and backward may be apart, next to their terms."""
    rounding: float = tolerances.PAIRED * epsilon(tensors) ** 0.5
    return max(tolerances.LEAST_CURVATURE, rounding)


def epsilon(tensors: list[torch.Tensor]) -> float:
    """Return the coarsest machine epsilon among tensors."""
    return max((float(torch.finfo(tensor.dtype).eps) for tensor in tensors if differentiable(tensor)), default=1.0)
