"""Judge one gradient by the oracle with the finest resolution, and measure a deviation twice before reporting it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from conformance.kit import tolerances
from conformance.kit.frames import raise_mistake_of_the_suite
from conformance.kit.judgement import ALONG, ELSEWHERE, Judgement
from conformance.kit.numerics.differences import beside_jumps, stops_early
from conformance.kit.oracles import adjoint, derivative
from conformance.kit.oracles.vector_function import Vector, VectorFunction, normal_like, rms

#: The rule by which nothing is judged, and nothing has to be.
NEGLIGIBLE = "it hardly affects the results"
#: The rule by which a deviation may be that of forward, and the one by which it is.
STOPS = "forward rounds, or stops within a tolerance: only over longer steps it agrees with backward"
BETWEEN = "between the jumps of forward, which rounds to a grid"


def judge(function: VectorFunction, seed: int = 0) -> Judgement:
    """Judge the gradient of one input: by the adjoint identity if forward is linear in it, else by differences.

    A deviation is measured again with other random numbers; if the two measurements disagree, the verdict is unclear.
    """
    first = _once(function, seed)
    is_fine = first.verdict == "agrees" and first.resolution <= tolerances.COARSEST_ACCUSER
    if not is_fine and is_negligible(function, seed):
        return replace(first, verdict="unclear", rule=NEGLIGIBLE, calls=function.calls)
    if not is_fine and function.of_dtypes < tolerances.SINGLE and _is_right_between_jumps(function, first, seed):
        known = tolerances.GRADCHECK_RTOL * max(1.0, abs(first.error))
        return replace(first, verdict="agrees", rule=BETWEEN, resolution=known, calls=function.calls)
    if first.verdict != "differs":
        return first
    if _changes(function, first.error):
        return replace(first, verdict="unclear", rule="two equal calls give different gradients", calls=function.calls)
    if function.of_dtypes < tolerances.SINGLE and not first.may_be_meant and _stops(function, first, seed):
        return replace(first, verdict="unclear", rule=STOPS, calls=function.calls)
    again = _once(function, seed + 1000)
    if again.verdict == "differs" and first.oracle == again.oracle:
        if _are_one_factor(first, again):
            return replace(first, calls=function.calls)
        if _are_one_shape(first, again, function.epsilon) and not _jumps(function, first.step, seed):
            return replace(first, rule=ELSEWHERE, error=first.apart, calls=function.calls)
    known = tolerances.MAY_BE_MEANT
    if max(abs(first.error), first.resolution, first.elsewhere) < known:  # however it came about, it may be meant
        return replace(first, verdict="agrees", resolution=known, elsewhere=known, calls=function.calls)
    return replace(first, verdict="unclear", rule="two measurements disagree", calls=function.calls)


def _stops(function: VectorFunction, found: Judgement, seed: int) -> bool:
    """Whether short steps disagree, and longer ones show what backward claims: forward rounds, or stops early."""

    def stops(direction: Vector, gradient: Vector, g: Vector) -> bool:
        deviation = abs(found.error) * float(gradient.norm()) * rms(direction)
        return stops_early(partial(_gap, function, direction, gradient, g), deviation)

    return _is_always(function, seed, stops)


def _is_right_between_jumps(function: VectorFunction, found: Judgement, seed: int) -> bool:
    """Whether short steps show what backward claims, and longer ones cross jumps: forward rounds to a grid."""

    def is_right(direction: Vector, gradient: Vector, g: Vector) -> bool:
        allowed = tolerances.GRADCHECK_RTOL * abs(_gap(function, direction, gradient, g, found.step))
        here, claimed = function(function.value), float((gradient * direction).sum())
        for step in tolerances.BETWEEN_JUMPS:
            behind, ahead = (function(function.value + way * step * direction) for way in (-1, 1))
            if abs(float((g * beside_jumps(behind, here, ahead)).sum()) / step - claimed) <= allowed:
                return True
        return False

    return math.isfinite(found.step) and _is_always(function, seed, is_right)


def _is_always(function: VectorFunction, seed: int, holds: Callable[[Vector, Vector, Vector], bool]) -> bool:
    """Whether something holds of a direction, the gradient and its incoming one, whenever these are drawn."""
    generator = torch.Generator().manual_seed(seed + 7)
    try:
        for _ in range(tolerances.DRAWS):
            g = function.rounded_cotangent(normal_like(function(function.value), generator))
            gradient = function.gradient(function.value, g)
            if not holds(function.size * normal_like(function.value, generator), gradient, g):
                return False
    except Exception as error:  # a step leads to where forward refuses the numbers
        raise_mistake_of_the_suite(error)
        return False
    return True


def _gap(function: VectorFunction, direction: Vector, gradient: Vector, g: Vector, step: float) -> float:
    """What backward claims along a direction, less the slope over a step."""
    moved, slope = function.slopes(function.value, direction, step)
    return float((gradient * moved).sum() - (g * slope).sum())


def _are_one_factor(one: Judgement, other: Judgement) -> bool:
    """Whether two measurements agree that the whole gradient is off by one factor.

    What is measured is the error next to what backward claims; next to the right value it is less certain, and beside
    none there is no factor.
    """
    known, times = one.resolution + other.resolution, 1 + max(abs(one.error), abs(other.error))
    is_near = times * known < 1 and abs(one.error - other.error) <= known * times**2
    return one.rule == other.rule == ALONG and is_near


def _are_one_shape(one: Judgement, other: Judgement, epsilon: float) -> bool:
    """Whether two measurements show an error of about the same size in directions other than the gradient.

    If a gradient has the wrong shape, the error along it differs between measurements.
    """
    clear = all(
        look.elsewhere < look.apart and derivative.is_clear(look.apart, look.elsewhere, epsilon)
        for look in (one, other)
    )
    least, most = sorted((one.apart, other.apart))
    return clear and most <= tolerances.SAMPLED_ALIKE * least


def _jumps(function: VectorFunction, step: float, seed: int) -> bool:
    """Whether results change only in jumps, as rounding does: a step 32 times shorter changes nothing.

    Then no step can show which gradient backward intends, such as that of a mean over random numbers.
    """
    if not math.isfinite(step):  # the adjoint identity takes none
        return False
    direction = normal_like(function.value, torch.Generator().manual_seed(seed)) * function.size
    return not bool(function.slopes(function.value, direction, step / 32)[1].any())


def is_negligible(function: VectorFunction, seed: int = 0) -> bool:
    """Whether backward and forward agree that the input hardly matters.

    That is so if its effect on the loss is within rounding; or if it is so small that single precision would not hold
    it, as what a solver leaves is, and backward claims no more than gradcheck accepts.
    """
    generator = torch.Generator().manual_seed(seed)
    try:
        y, direction = function(function.value), derivative.towards(function, generator)
        g = function.rounded_cotangent(normal_like(y, generator))
        moved, slope = function.slopes(function.value, direction * function.size, 0.1)
        claimed, seen = float(function.gradient(function.value, g).norm()) * rms(moved), float((g * slope).norm())
    except Exception as error:  # a step leads to where forward refuses the numbers
        raise_mistake_of_the_suite(error)
        return False
    size, reach = float((g * y).norm()), float(g.abs().sum()) * float(moved.abs().sum())
    accepted = min(tolerances.GRADCHECK_ATOL * reach, tolerances.GRADCHECK_RTOL * size)
    is_residue = seen <= tolerances.SINGLE * size and claimed <= accepted
    return is_residue or max(claimed, seen) <= tolerances.WITHIN_ROUNDING * function.epsilon * size


def _is_shown(judgement: Judgement, epsilon: float) -> bool:
    """Whether an error was measured finely: what bends so little that rounding hides it is not linear."""
    fine = judgement.elsewhere if judgement.rule == ELSEWHERE else judgement.resolution
    return judgement.verdict == "differs" and derivative.is_clear(judgement.error, fine, epsilon)


def _changes(function: VectorFunction, error: float) -> bool:
    """Whether equal calls have gradients that differ about as much as the error; other clauses test that."""
    g = function.rounded_cotangent(torch.ones_like(function(function.value)))
    one, *others = (function.gradient(function.value, g) for _ in range(tolerances.DRAWS))
    apart = max(float((one - other).norm()) for other in others)
    return apart > min(tolerances.SAME, abs(error) / tolerances.SAMPLED_ALIKE) * float(one.norm())


def _once(function: VectorFunction, seed: int) -> Judgement:
    identity = adjoint.judge(function, seed)
    if identity and (_is_shown(identity, function.epsilon) or identity.is_finer_than(tolerances.FINE)):
        return identity
    found = derivative.judge(function, seed)
    return min((one for one in (identity, found) if one), key=lambda one: one.resolution)
