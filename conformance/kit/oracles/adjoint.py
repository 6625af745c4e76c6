"""The adjoint identity, for an input in which forward is linear.

    <g, f(x + u) - f(x)> = <backward(x, g), u>

It holds to rounding, in every dtype, and takes no step. Whether forward is linear in the input is found by experiment:
f(x + u + v) - f(x + u) - f(x + v) + f(x) is zero to 16 machine epsilons, and f(c x) - f(0) is c (f(x) - f(0)) to two,
for c = 4, 1/4 and -1: in bfloat16 the first alone cannot tell a logarithm of a sum of exponentials from a sum. How far
f(u / 4) - f(0) is from a quarter of f(u) - f(0), which scales exactly if f is linear, adds to the resolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from conformance.kit import tolerances
from conformance.kit.frames import raise_mistake_of_the_suite
from conformance.kit.judgement import ALONG, ELSEWHERE, Judgement
from conformance.kit.oracles.vector_function import Vector, VectorFunction, rms

NAME = "adjoint identity"
#: Machine epsilons that a call may use internally: forward is linear to one of these.
INSIDE = (0.0, tolerances.SINGLE, tolerances.HALF, tolerances.BFLOAT)


@dataclass(frozen=True)
class _Product:
    """Slopes along a direction by backward and by forward, and the deviations that rounding may cause."""

    claimed: float
    seen: float
    noise: float
    bend: float
    #: The size of the gradient and of the direction: their product if they point the same way.
    scale: float


def judge(function: VectorFunction, seed: int = 0) -> Judgement | None:
    """Judge the gradient of one input by the adjoint identity; None if forward is not linear in it."""
    generator = torch.Generator().manual_seed(seed)
    draws = tolerances.DRAWS_IN_HALF if function.epsilon > tolerances.SINGLE else tolerances.DRAWS
    try:
        at_zero = function(torch.zeros_like(function.value))
        found = [_products(function, at_zero, generator) for _ in range(draws)]
    except Exception as error:  # it need not take any numbers; what does not is not linear
        raise_mistake_of_the_suite(error)
        return None
    if not all(found):
        return None
    return _judged(function, [products[0] for products in found], [one for products in found for one in products[1:]])


def _products(function: VectorFunction, at_zero: Vector, generator: torch.Generator) -> list[_Product]:
    """Compute products along the gradient, then along other directions; none if forward is not linear."""
    x, v = (_generic(function, generator) for _ in range(2))
    y = function(x)
    g, g2 = (function.rounded_cotangent(_numbers(y, function.epsilon, generator)) for _ in range(2))
    grad, grad2, both = (function.gradient(x, given) for given in (g, g2, function.rounded_cotangent(g + g2)))
    u = _along(function, grad) if bool(grad.any()) else _generic(function, generator)
    ahead, beside, across = (function(function.rounded(point)) for point in (x + u, x + v, x + u + v))
    left = across - ahead - beside + y
    whole, quarter = (function(function.rounded(c * u)) - at_zero for c in (1.0, 0.25))
    scaled = [(c, function(function.rounded(c * x)) - at_zero, y - at_zero) for c in (4.0, 0.25, -1.0)]
    rough = rms(left) / (tolerances.LINEAR * max(map(rms, (across, ahead, beside, y))) or 1.0)
    for c, actual, change in (*scaled, (0.25, quarter, whole)):
        size = rms(actual) + rms(c * change) + rms(at_zero) * max(1.0, c)
        rough = max(rough, rms(actual - c * change) / (tolerances.LINEAR * size or 1.0))
    eps = next((eps for eps in INSIDE if max(eps, function.epsilon) >= rough), None)
    if eps is None:
        return []
    forward, backward, eps = rms(left) / 2, rms(both - grad - grad2) / math.sqrt(3), max(eps, function.epsilon)

    def product(g: Vector, grad: Vector, u: Vector, there: Vector, bend: float = 0.0) -> _Product:
        rounding = (tolerances.ROUNDED * eps) ** 2 * float((grad * u).square().sum() + 2 * (g * y).square().sum())
        variance = 2 * forward**2 * float(g.square().sum()) + backward**2 * float(u.square().sum()) + rounding
        seen, scale = float((g * (there - y)).sum()), float(grad.norm()) * rms(u)
        return _Product(float((grad * u).sum()), seen, math.sqrt(variance), bend, scale)

    bend = float((g * (whole - 4 * quarter)).sum())
    others = [(g, grad, v, beside), (g2, grad2, v, beside), (g2, grad2, u, ahead)]
    return [product(g, grad, u, ahead, bend), *(product(*other) for other in others)]


def _judged(function: VectorFunction, along: list[_Product], elsewhere: list[_Product]) -> Judgement:
    claimed, seen, bend = (sum(getattr(one, name) for one in along) for name in ("claimed", "seen", "bend"))
    size, others = abs(seen), math.sqrt(sum(one.scale**2 for one in elsewhere))
    if all(one.claimed == one.seen == 0 for one in (*along, *elsewhere)):
        return Judgement("agrees", NAME, "nothing changes", 0.0, 0.0, 0.0, 0.0, 0.0, noise=0.0, calls=function.calls)
    if seen == 0 or others == 0:
        return Judgement("unclear", NAME, "no change along the gradient", claimed, seen, calls=function.calls)
    noise = math.sqrt(sum(one.noise**2 for one in along)) / size
    error = (claimed - seen) / seen
    resolution = tolerances.SIGMAS * noise + tolerances.DRIFTS * abs(bend) / size + tolerances.FINEST
    apart, apart_noise = (
        math.sqrt(sum(part**2 for part in parts)) / others
        for parts in ([one.claimed - one.seen for one in elsewhere], [one.noise for one in elsewhere])
    )
    other = tolerances.SIGMAS * apart_noise + tolerances.DRIFTS * abs(bend) / size + tolerances.FINEST
    is_off, is_other = abs(error) > resolution, apart > other
    return Judgement(
        "differs" if is_off or is_other else "agrees",
        NAME,
        ELSEWHERE if is_other and not is_off else ALONG,
        claimed,
        seen,
        apart if is_other and not is_off else error,
        resolution,
        other,
        noise=noise,
        calls=function.calls,
        apart=apart,
    )


def _generic(function: VectorFunction, generator: torch.Generator) -> Vector:
    """Draw numbers of the input's size that use all bits of its dtype, so that coarser rounding inside shows."""
    return function.rounded(_numbers(function.value, function.epsilon, generator) * _power(function))


def _numbers(like: Vector, eps: float, generator: torch.Generator) -> Vector:
    """Draw numbers whose sums of three are exact in a dtype with this epsilon."""
    top = int(0.625 / eps)
    return torch.randint(-top, top + 1, like.shape, generator=generator, device="cpu").double() * _unit(top)


def _along(function: VectorFunction, gradient: Vector) -> Vector:
    """Return a step along a gradient that the dtype represents exactly."""
    top = int(0.625 / function.epsilon)
    return function.rounded((gradient / gradient.abs().max() * top).round() * _unit(top) * _power(function))


def _unit(top: int) -> float:
    return float(2.0 ** (1 - math.floor(math.log2(top))))


def _power(function: VectorFunction) -> float:
    return float(2.0 ** round(math.log2(function.size)))
