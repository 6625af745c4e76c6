"""The gradient in other dtypes than the samples have."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from conformance.kit import Deviation, Probe, Run, SampleCall, World, cases, clause, expect
from conformance.kit.judgement import Judgement
from conformance.kit.numerics.nearby import perturbed
from conformance.kit.tensors import dense, to_double
from conformance.kit.variations.variants import (
    BY_DOUBLE,
    LOST_BY_FORWARD,
    Mismatch,
    confirmed_nearby,
    draws_by_any_seed,
    in_dtype,
    repeatable,
    size_of,
    worst_error,
)

ORACLE = "the gradient in double precision"


@dataclass(frozen=True)
class InBothPrecisions:
    """The gradients of a call in a low precision, and of one in double precision at the same values."""

    run: Run
    high: SampleCall
    cotangents: list[torch.Tensor]
    actual: list[torch.Tensor]
    right: list[torch.Tensor]
    #: How far the results are off.
    lost: float


@clause("Function.backward.gradient")
@cases(dtype=["float32", "float16", "bfloat16"])
def test_gradient_in_another_dtype(probe: Probe, dtype: str) -> None:
    """In other dtypes that the subject accepts, the gradient is the one in double precision, up to rounding."""
    kind, world, sample = getattr(torch, dtype), probe.world, repeatable(probe.sample, probe.world)
    why = f"it accepts no sample in {dtype}, or none in double precision, or all samples are in {dtype} already"
    probe.unless_refused(why, _in_both_precisions, sample, kind, world)
    wrong = confirmed_nearby(sample, world, lambda point: _by_dtype(point, world, kind))
    if wrong:
        actual, right = expect.shown_apart(wrong.actual, wrong.right)
        raise Deviation(f"{wrong} in double precision at the same values", actual, right)


def _in_both_precisions(point: SampleCall, dtype: torch.dtype, world: World) -> InBothPrecisions | None:
    """Differentiate a sample in both; None if a dtype changes nothing, or results are not finite."""
    low = in_dtype(point, dtype)
    high = in_dtype(low, torch.float64) if low else None
    if low is None or high is None:
        return None
    run = low.run()
    cotangents = run.cotangents(world)
    finite = all(bool(output.isfinite().all()) for output in run.outputs)
    results = [dense(output).detach().clone() for output in run.outputs]  # backward may free their memory
    actual = run.filled(run.gradients(cotangents))
    wide = _in_double(high, run)
    lost = worst_error(results, [*map(dense, wide.outputs)])[0]
    return InBothPrecisions(run, high, cotangents, actual, _gradients(wide, cotangents), lost) if finite else None


def _in_double(high: SampleCall, low: Run) -> Run:
    run = high.run()
    if run.places != low.places or [y.shape for y in run.outputs] != [y.shape for y in low.outputs]:
        raise ValueError("results differ between precisions")
    return run


def _gradients(run: Run, cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
    wide = [cotangent.to(output.dtype) for cotangent, output in zip(cotangents, run.outputs, strict=True)]
    return run.filled(run.gradients(wide))


def _by_dtype(point: SampleCall, world: World, dtype: torch.dtype) -> Mismatch | None:
    """The gradient in a dtype that is farther from the one in double precision than rounding explains."""
    found = world.try_call(_in_both_precisions, point, dtype, world)
    if found is None:
        return None
    actual, right = found.actual, found.right
    others = perturbed(found.high, world, torch.finfo(dtype).eps, constants=True)
    nearby = [world.try_call(lambda at: _gradients(_in_double(at, found.run), found.cotangents), at) for at in others]
    if torch.finfo(dtype).bits < 32 and not all(bool(gradient.isfinite().all()) for gradient in actual):
        return None  # beyond the range of the dtype
    rough = max(math.inf if moved is None else worst_error(moved, right)[0] for moved in nearby)
    largest = max([*(float(c.abs().max()) for c in found.cotangents if c.numel()), *map(size_of, right)])
    near = BY_DOUBLE[dtype] + LOST_BY_FORWARD * found.lost + 3 * rough
    gaps = [worst_error([one], [other], largest)[0] for one, other in zip(actual, right, strict=True)]
    name = str(dtype).removeprefix("torch.")
    if max(gaps) <= near < math.inf:
        agrees = Judgement("agrees", ORACLE, error=max(gaps), resolution=near, elsewhere=near)
        world.note(f"gradients of {point.label} in {name}", agrees)
    if not any(world.exchange(any(gap > near for gap in gaps))) or draws_by_any_seed(point, world):
        return None
    left = _left_by_rounding(found, dtype, largest, world)
    wrong = [at for at, gap in enumerate(gaps) if gap > near and _apart(actual[at], right[at]) > left[at]]
    if not wrong:
        return None
    place = max(wrong, key=lambda at: gaps[at])
    what = f"gradient of {point.name(list(found.run.leaves)[place])} in {name}"
    return Mismatch(what, actual[place], right[place], gaps[place], near)


def _left_by_rounding(found: InBothPrecisions, dtype: torch.dtype, largest: float, world: World) -> list[float]:
    """Return how far each gradient may be from zero, relative to its summands.

    A bias before a normalization makes no difference: its gradient cancels except for rounding, which differs from
    point to point.
    """
    eps = torch.finfo(dtype).eps

    def elsewhere(moved: SampleCall) -> list[torch.Tensor]:
        low = in_dtype(moved, dtype)
        other = (moved if low is None else low).run()
        return other.filled(other.gradients(found.cotangents))

    others = [world.try_call(elsewhere, moved) for moved in perturbed(found.high, world, eps, tries=4)]
    apart = [
        max((_apart(gradient, other[at]) for other in others if other is not None), default=0.0)
        for at, gradient in enumerate(found.actual)
    ]
    return [3 * far if size_of(one) <= 16 * eps * largest else 0.0 for far, one in zip(apart, found.right, strict=True)]


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return size_of(to_double(one.detach()) - to_double(other.detach()))
