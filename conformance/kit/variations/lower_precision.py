"""Judge gradients in a lower precision by those in double precision at the same numbers.

How far they may be apart is measured: by how far rounded inputs move the gradient, and by how much the results lose,
since a Function may work in bfloat16 or tf32 inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from conformance.kit import expect, tolerances
from conformance.kit.calls import Run, SampleCall
from conformance.kit.deviations import Deviation, need
from conformance.kit.judgement import Judgement
from conformance.kit.numerics.nearby import perturbed
from conformance.kit.tensors import dense, to_double
from conformance.kit.variations.axes_of_representation import ones
from conformance.kit.variations.variants import (
    confirmed_nearby,
    draws_by_any_seed,
    in_dtype,
    size_of,
    worst_error,
)
from conformance.kit.world import World

__all__ = ["LowerPrecision", "expect_as_in_double"]

ORACLE = "the gradient in double precision"


@dataclass(frozen=True)
class LowerPrecision:
    """A way to call a sample in a lower precision.

    Attributes:
        name: how messages name it, such as ``in bfloat16``.
        dtype: in which dtype it rounds.
        beside: how messages name the higher precision.
        pair: returns the call in the lower precision, and one in the higher with the same numbers; None if a sample
            has none.
    """

    name: str
    dtype: torch.dtype
    beside: str
    pair: Callable[[SampleCall], tuple[SampleCall, SampleCall] | None]

    @classmethod
    def of(cls, dtype: torch.dtype) -> LowerPrecision:
        """Return the way to call a sample in another dtype."""

        def pair(point: SampleCall) -> tuple[SampleCall, SampleCall] | None:
            low = in_dtype(point, dtype)
            high = in_dtype(low, torch.float64) if low else None
            return (low, high) if low and high else None

        return cls(f"in {str(dtype).removeprefix('torch.')}", dtype, "in double precision at the same values", pair)

    @property
    def tolerance(self) -> float:
        """How far a gradient may be off, next to its size, beside what is measured."""
        by_double = {torch.float16: tolerances.BY_DOUBLE_IN_HALF, torch.bfloat16: tolerances.BY_DOUBLE_IN_BFLOAT}
        return by_double.get(self.dtype, tolerances.BY_DOUBLE)


@dataclass(frozen=True)
class _InBoth:
    """The gradients of a call in a lower precision, and of one in a higher at the same numbers."""

    run: Run
    high: SampleCall
    cotangents: list[torch.Tensor]
    actual: list[torch.Tensor]
    right: list[torch.Tensor]
    #: How far the results are off.
    lost: float


def expect_as_in_double(sample: SampleCall, world: World, precision: LowerPrecision, why: str) -> None:
    """Expect the gradients in a lower precision to be those in double precision, up to rounding.

    Half precisions are judged with incoming gradients of one sign too: a sum of them may stop growing.

    Args:
        sample: a sample that gives the same result in every call.
        world: the ranks.
        precision: the lower precision.
        why: why nothing is judged if the call is refused.

    Raises:
        Deviation: they are not, near the sample either.
        NotApplicable: the call is refused, or rounding may double its gradients.
    """
    need(world.try_call(_in_both, sample, precision, world, False) is not None, why)
    for with_ones in (False, True)[: 1 + (torch.finfo(precision.dtype).bits < 32)]:
        wrong = confirmed_nearby(sample, world, lambda point: _wrong_in(point, precision, world, with_ones))  # noqa: B023
        if wrong:
            raise wrong


def _in_both(point: SampleCall, precision: LowerPrecision, world: World, with_ones: bool) -> _InBoth | None:
    """Differentiate a sample in both; None if it has no lower precision, or results are not finite."""
    pair = precision.pair(point)
    if pair is None:
        return None
    low, high = pair
    run = low.run()
    cotangents = run.cotangents(world)
    cotangents = ones(cotangents) if with_ones else cotangents
    finite = all(bool(output.isfinite().all()) for output in run.outputs)
    results = [dense(output).detach().clone() for output in run.outputs]  # backward may free their memory
    actual = run.filled(run.gradients(cotangents))
    wide = _like(run, high)
    lost = worst_error(results, [*map(dense, wide.outputs)])[0]
    return _InBoth(run, high, cotangents, actual, _gradients(wide, cotangents), lost) if finite else None


def _like(low: Run, high: SampleCall) -> Run:
    run = high.run()
    if run.places != low.places or [y.shape for y in run.outputs] != [y.shape for y in low.outputs]:
        raise ValueError("results differ between precisions")
    return run


def _gradients(run: Run, cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
    given = [cotangent.to(output.dtype) for cotangent, output in zip(cotangents, run.outputs, strict=True)]
    return run.filled(run.gradients(given))


def _wrong_in(point: SampleCall, precision: LowerPrecision, world: World, with_ones: bool) -> Deviation | None:
    """The gradient that is farther from the one in double precision than rounding explains."""
    found = world.try_call(_in_both, point, precision, world, with_ones)
    if found is None:
        return None
    actual, right, dtype = found.actual, found.right, precision.dtype
    others = perturbed(found.high, world, torch.finfo(dtype).eps, constants=True)
    nearby = [world.try_call(lambda at: _gradients(_like(found.run, at), found.cotangents), at) for at in others]
    is_finite = torch.finfo(dtype).bits == 32 or all(bool(gradient.isfinite().all()) for gradient in actual)
    if not all(world.exchange(is_finite)):
        return None  # beyond the range of the dtype
    rough = max(math.inf if moved is None else worst_error(moved, right)[0] for moved in nearby)
    largest = max([*(float(c.abs().max()) for c in found.cotangents if c.numel()), *map(size_of, right)])
    near = precision.tolerance + tolerances.LOST_BY_FORWARD * found.lost + tolerances.BEYOND_ROUGH * rough
    gaps = [worst_error([one], [other], largest)[0] for one, other in zip(actual, right, strict=True)]
    name = f"{precision.name}, incoming gradients one" if with_ones else precision.name
    if not any(world.exchange(any(gap > near for gap in gaps))):
        is_told = all(world.exchange(near < 1))
        need(is_told or with_ones, f"rounding alone may double a gradient {precision.name}")
        if is_told:  # incoming gradients of one may cancel out, and the others were judged
            agrees = Judgement("agrees", ORACLE, error=max(gaps), resolution=near, elsewhere=near)
            world.note(f"gradients of {point.label} {name}", agrees)
        return None
    if draws_by_any_seed(point, world):
        return None
    left = _left_by_rounding(found, precision, world)
    wrong = [at for at, gap in enumerate(gaps) if gap > near and _apart(actual[at], right[at]) > left[at]]
    if not wrong:
        return None
    place = max(wrong, key=lambda at: gaps[at])
    what = f"gradient of {point.name(list(found.run.leaves)[place])} {name}"
    allowed = f"off by {gaps[place]:.2g} of its size, and {near:.2g} is allowed"
    one, other = expect.shown_apart(actual[place], right[place])
    likely = _stopped_growing(found, place) if world.size == 1 else ""
    return Deviation(f"{what}: {allowed}", one, f"{other} {precision.beside}", likely)


def _left_by_rounding(found: _InBoth, precision: LowerPrecision, world: World) -> list[float]:
    """Return how far rounding may move each gradient, by what it moves it from point to point.

    A bias before a normalization makes no difference: its gradient cancels except for rounding. So do those of a
    softmax whose incoming gradients are one.
    """
    eps = torch.finfo(precision.dtype).eps

    def elsewhere(moved: SampleCall) -> list[torch.Tensor]:
        pair = precision.pair(moved)
        other = (pair[0] if pair else moved).run()
        return other.filled(other.gradients(found.cotangents))

    others = [world.try_call(elsewhere, moved) for moved in perturbed(found.high, world, eps, tries=4)]
    return [
        tolerances.BEYOND_ROUGH * max((_apart(one, other[at]) for other in others if other is not None), default=0.0)
        for at, one in enumerate(found.actual)
    ]


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return size_of(to_double(one.detach()) - to_double(other.detach()))


def _stopped_growing(found: _InBoth, at: int) -> str:
    """Name the cause, if the gradient is too small and the same numbers in single precision have the right one."""
    actual, right = to_double(found.actual[at]), to_double(found.right[at])
    single = in_dtype(found.high, torch.float32)
    if torch.finfo(found.actual[at].dtype).bits == 32 or single is None or not actual.numel():
        return ""
    worst = int((actual - right).abs().argmax())
    if not actual.reshape(-1)[worst].abs() < right.reshape(-1)[worst].abs():
        return ""
    try:
        there = to_double(_gradients(single.run(), found.cotangents)[at])
    except Exception:  # it need not take single precision
        return ""
    is_right = torch.allclose(there, right, rtol=tolerances.ABOUT_RTOL, atol=tolerances.ABOUT_ATOL)
    return "a sum in low precision that stopped growing" if is_right else ""
