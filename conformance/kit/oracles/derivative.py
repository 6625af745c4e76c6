"""The derivative by extrapolated differences, with its noise measured, for an input in which forward is smooth.

    <backward(x, g), u> = d/dt <g, f(x + t u)>

along the gradient that backward returns, which has the strongest signal, and along random directions, which show errors
at right angles to it. Differences at several steps are extrapolated to zero; each draw has another point and another g.
How much the draws scatter, and how much the estimate drifts from one window of steps to the next, is the resolution: at
a kink or a jump, and if forward rounds, the drift is large, and nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from conformance.kit import tolerances
from conformance.kit.frames import raise_mistake_of_the_suite
from conformance.kit.judgement import ALONG, ELSEWHERE, Judgement
from conformance.kit.numerics.differences import extrapolated
from conformance.kit.oracles.vector_function import VectorFunction, normal_like, numbers, rms

NAME = "extrapolated differences"


@dataclass(frozen=True)
class _Ladder:
    """Steps, each ``ratio`` times the one before, and how many draws to take along the gradient and elsewhere."""

    longest: float
    #: The longest step along random directions.
    longest_elsewhere: float
    ratio: float
    count: int
    orders: tuple[int, ...]
    along: int
    elsewhere: int


@dataclass(frozen=True)
class _Estimate:
    """Error along some directions relative to the gradient, its resolution and noise, and the longest step."""

    error: float
    resolution: float
    noise: float
    step: float


def judge(function: VectorFunction, seed: int = 0) -> Judgement:
    """Judge the gradient of one input by differences; stop as soon as the resolution is fine enough."""
    enough = max(tolerances.ENOUGH, tolerances.ENOUGH_ROUNDINGS * function.epsilon)
    found: list[tuple[_Estimate, _Estimate]] = []
    for ladder in _ladders(function, seed):
        try:
            climbed = _climbed(function, ladder, seed, along=True), _climbed(function, ladder, seed + 100, along=False)
        except Exception as error:  # a step leads to where forward refuses the numbers
            raise_mistake_of_the_suite(error)
            continue
        if climbed[0] and climbed[1]:
            found.append((climbed[0], climbed[1]))
        if found and min(one.resolution for one, _ in found) <= enough:
            break
    if not found:
        return Judgement("unclear", NAME, "forward accepts no step in any direction", calls=function.calls)
    along, other = min(found, key=lambda pair: pair[0].resolution)
    if function.epsilon >= tolerances.SINGLE:  # there, steps along the gradient and elsewhere have lengths of their own
        other = min((one for _, one in found), key=lambda one: one.resolution)
    is_off, is_other = abs(along.error) > along.resolution, other.error > other.resolution
    clear = [is_clear(one.error, one.resolution, function.epsilon) for one in (along, other)]
    # Of a gradient of another shape the error along it differs from draw to draw, which makes that estimate coarse.
    is_elsewhere = is_other and not (is_off and clear[0])
    is_shown = clear[1] if is_elsewhere else clear[0]
    # Errors are next to what backward claims: one; what differences say is that less the error.
    expected = 1 - along.error
    return Judgement(
        "agrees" if not (is_off or is_other) else "differs" if is_shown else "unclear",
        NAME,
        ELSEWHERE if is_elsewhere else ALONG,
        1.0,
        expected,
        other.error if is_elsewhere else along.error / expected if expected else math.inf,
        along.resolution,
        other.resolution,
        along.step,
        along.noise,
        function.calls,
        apart=other.error,
    )


def is_clear(error: float, resolution: float, epsilon: float) -> bool:
    """Whether an error cannot be that of a kink or a jump: it was measured finely, or is far larger than either."""
    coarsest = tolerances.COARSEST_ACCUSER
    is_large = epsilon > tolerances.SINGLE and abs(error) >= tolerances.BEYOND_KINKS * max(resolution, coarsest)
    return resolution <= coarsest or is_large


def _ladders(function: VectorFunction, seed: int) -> Iterator[_Ladder]:
    """Yield steps to try: in double precision ever shorter ones, else from the longest straight one."""
    if function.of_dtypes < tolerances.SINGLE:
        for longest in (1e-2, 1e-4, 1e-6, 1e-8):
            yield _Ladder(longest, longest, 0.5, 5, (1, 2), tolerances.DRAWS, tolerances.DRAWS)
    if function.epsilon < tolerances.SINGLE:
        return
    is_half = function.epsilon > tolerances.SINGLE
    one, other = (torch.Generator().manual_seed(seed + 5) for _ in range(2))
    along = _longest_straight(function, towards(function, one))
    elsewhere = _longest_straight(function, normal_like(function.value, other))
    # Of a large input, hardly any direction but that of the gradient changes results by more than rounding.
    if straight := along or elsewhere:
        count, orders, draws, beside = (6, (1, 2), 40, 12) if is_half else (7, (1, 2, 3), 10, 6)
        for shorter in (1.0, 0.1):
            yield _Ladder(shorter * straight, shorter * (elsewhere or straight), 0.6, count, orders, draws, beside)


def towards(function: VectorFunction, generator: torch.Generator) -> torch.Tensor:
    """Return the direction of a gradient that backward returns; a random one if it returns none, or zero."""
    try:
        g = function.rounded_cotangent(normal_like(function(function.value), generator))
        gradient = function.gradient(function.value, g)
    except Exception as error:
        raise_mistake_of_the_suite(error)
        gradient = torch.zeros_like(function.value)
    norm = rms(gradient)
    return (gradient / norm if norm else normal_like(function.value, generator)).clamp(-3, 3)


def _longest_straight(function: VectorFunction, direction: torch.Tensor) -> float | None:
    """Find the longest step over which results follow a straight line within the tolerance; None if there is none."""
    slopes: list[torch.Tensor] = []
    direction = direction * function.size
    for power in range(tolerances.HALVINGS):
        step = tolerances.LONGEST * 2.0**-power
        try:
            slopes.append(function.slopes(function.value, direction, step)[1])
        except Exception as error:
            raise_mistake_of_the_suite(error)
            slopes.clear()
            continue
        if len(slopes) > 2:
            near = tolerances.STRAIGHT * float(slopes[-3].norm())
            if all(float((one - other).norm()) <= near for one, other in zip(slopes[-3:], slopes[-2:], strict=False)):
                return 4 * step
    return None


def _climbed(function: VectorFunction, ladder: _Ladder, seed: int, along: bool) -> _Estimate | None:
    """Estimate the error along the gradient, or along random directions; None if no estimate is finite."""
    generator, size = torch.Generator().manual_seed(seed), function.size
    longest = ladder.longest if along else ladder.longest_elsewhere
    steps = longest * size * ladder.ratio ** numbers(range(ladder.count))
    rows, noises = [], []
    for _ in range(ladder.along if along else ladder.elsewhere):
        beside = 0.1 * float(steps[0]) * function.kept(normal_like(function.value, generator))
        x = function.rounded(function.value + beside)
        y = function(x)
        g = function.rounded_cotangent(normal_like(y, generator))
        gradient = function.gradient(x, g)
        norm = rms(gradient)
        is_along = along and norm > 0
        direction = (gradient / norm if is_along else normal_like(x, generator)).clamp(-3, 3)
        row = []
        for step in steps.tolist():
            moved, slope = function.slopes(x, direction, step)
            row.append([float((gradient * moved).sum()), float((g * slope).sum())])
        claims = numbers(row)
        scale = abs(float((gradient * direction).sum())) if is_along else float(gradient.norm())
        scale = scale or abs(float(claims[0, 1]))
        if scale == 0:  # nothing changes, as backward says
            scale = 1.0
        rows.append((claims[:, 0] - claims[:, 1]) / scale)
        noises.append(tolerances.ROUNDED * function.epsilon * float((g * y).norm()) / math.sqrt(2) / scale)
    return _best_window(torch.stack(rows), rms(numbers(noises)), steps, ladder, along)


def _best_window(
    errors: torch.Tensor, rounding: float, steps: torch.Tensor, ladder: _Ladder, along: bool
) -> _Estimate | None:
    """Return the estimate with the finest resolution, over all orders and windows of steps."""
    best: _Estimate | None = None
    # A deviation estimated from three draws is often far too small: Student's t with two degrees of freedom.
    sigmas = tolerances.SIGMAS if len(errors) > tolerances.DRAWS else tolerances.SIGMAS_OF_FEW
    for order in ladder.orders:
        found = extrapolated(errors, ladder.ratio, order)
        weights = extrapolated(torch.eye(len(steps), dtype=torch.float64, device="cpu"), ladder.ratio, order)
        for window in range(found.shape[1] - 2):
            here, *drifts = (
                found[:, window],
                found[:, window] - found[:, window + 1],
                found[:, window + 1] - found[:, window + 2],
            )
            noise = rounding * float((weights[:, window] / steps).norm())
            if along:
                spread = max(float(here.std()), float(drifts[0].std()), noise) / math.sqrt(len(here))
                drift = max(abs(float(one.mean())) for one in drifts)
                error = float(here.mean())
            else:
                spread, drift = max(rms(drifts[0]), rms(drifts[1]), noise), 0.0
                error = rms(here)
            resolution = sigmas * spread + tolerances.DRIFTS * drift + tolerances.FINEST_DERIVATIVE
            if math.isfinite(resolution) and (best is None or resolution < best.resolution):
                best = _Estimate(error, resolution, noise, ladder.longest)
    return best
