"""Judge gradients and tangents in a lower precision by those in double precision at the same numbers.

How far they may be apart is measured: by how far rounded inputs move the gradient, and by how much the results lose,
since a Function may work in bfloat16 or tf32 inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from conformance.kit import expect, tolerances
from conformance.kit.calls import Run, SampleCall
from conformance.kit.deviations import Deviation, need
from conformance.kit.judgement import Judgement
from conformance.kit.numerics.nearby import perturbed, random_direction
from conformance.kit.tensors import dense, to_double
from conformance.kit.variations.axes_of_representation import ones
from conformance.kit.variations.transforms import tangents
from conformance.kit.variations.variants import confirmed_nearby, draws_by_any_seed, in_dtype, size_of, worst_error
from conformance.kit.world import World

__all__ = ["GRADIENTS", "TANGENTS", "LowerPrecision", "expect_as_in_double"]


@dataclass(frozen=True)
class Derivative:
    """What is compared: the gradients of a call, or its tangents.

    Attributes:
        name: one of them, in messages.
        given_name: what comes in, in messages.
        given: draws what comes in.
        of: computes it in a call; that of another precision gets what comes in as it is for the first.
        place: names the input or output that one of them is of.
    """

    name: str
    given_name: str
    given: Callable[[Run, World], list[torch.Tensor]]
    of: Callable[[Run, list[torch.Tensor]], list[torch.Tensor]]
    place: Callable[[Run, int], str]


def _gradients(run: Run, cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
    given = [cotangent.to(output.dtype) for cotangent, output in zip(cotangents, run.outputs, strict=True)]
    return run.filled(run.gradients(given))


def _directions(run: Run, world: World) -> list[torch.Tensor]:
    return [random_direction(world, value.detach(), "tangent", at) for at, value in run.leaves.items()]


def _tangents(run: Run, directions: list[torch.Tensor]) -> list[torch.Tensor]:
    given = zip(run.leaves.items(), directions, strict=True)
    found = tangents(run.sample, {at: direction.to(leaf.dtype) for (at, leaf), direction in given})
    return [found[place] for place in run.places]


GRADIENTS = Derivative(
    "gradient", "incoming gradients", Run.cotangents, _gradients, lambda run, at: run.sample.name(list(run.leaves)[at])
)
TANGENTS = Derivative(
    "tangent", "tangents", _directions, _tangents, lambda run, at: f"output {run.places[at]} of {run.sample.label}"
)


@dataclass(frozen=True)
class LowerPrecision:
    """A way to call a sample in a lower precision.

    Attributes:
        name: how messages name it, such as ``in bfloat16``.
        dtype: in which dtype it rounds.
        beside: how messages name the higher precision.
        pair: returns the call in the lower precision, and one in the higher with the same numbers; None if a sample
            has none.
        derivative: what is compared.
    """

    name: str
    dtype: torch.dtype
    beside: str
    pair: Callable[[SampleCall], tuple[SampleCall, SampleCall] | None]
    derivative: Derivative = GRADIENTS

    @classmethod
    def of(cls, dtype: torch.dtype, derivative: Derivative = GRADIENTS) -> LowerPrecision:
        """Return the way to call a sample in another dtype."""

        def pair(point: SampleCall) -> tuple[SampleCall, SampleCall] | None:
            low = in_dtype(point, dtype)
            high = in_dtype(low, torch.float64) if low else None
            return (low, high) if low and high else None

        name = f"in {str(dtype).removeprefix('torch.')}"
        return cls(name, dtype, "in double precision at the same values", pair, derivative)

    @property
    def tolerance(self) -> float:
        """How far a gradient may be off, next to its size, beside what is measured."""
        by_double = {torch.float16: tolerances.BY_DOUBLE_IN_HALF, torch.bfloat16: tolerances.BY_DOUBLE_IN_BFLOAT}
        return by_double.get(self.dtype, tolerances.BY_DOUBLE)


@dataclass(frozen=True)
class _InBoth:
    """The gradients of a call in a lower precision, and of one in a higher at the same numbers, or the tangents."""

    run: Run
    high: SampleCall
    given: list[torch.Tensor]
    actual: list[torch.Tensor]
    right: list[torch.Tensor]
    #: How far the results are off.
    lost: float


def expect_as_in_double(sample: SampleCall, world: World, precision: LowerPrecision, why: str) -> None:
    """Expect the gradients or tangents in a lower precision to be those in double precision, up to rounding.

    Half precisions are judged with what comes in of one sign too: a sum of that may stop growing.

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
    run, derivative = low.run(), precision.derivative
    given = derivative.given(run, world)
    given = ones(given) if with_ones else given
    finite = all(bool(output.isfinite().all()) for output in run.outputs)
    results = [dense(output).detach().clone() for output in run.outputs]  # backward may free their memory
    actual = derivative.of(run, given)
    wide = _like(run, high)
    lost = worst_error(results, [*map(dense, wide.outputs)])[0]
    return _InBoth(run, high, given, actual, derivative.of(wide, given), lost) if finite else None


def _like(low: Run, high: SampleCall) -> Run:
    run = high.run()
    if run.places != low.places or [y.shape for y in run.outputs] != [y.shape for y in low.outputs]:
        raise ValueError("results differ between precisions")
    return run


def _wrong_in(point: SampleCall, precision: LowerPrecision, world: World, with_ones: bool) -> Deviation | None:
    """The gradient that is farther from the one in double precision than rounding explains."""
    found = world.try_call(_in_both, point, precision, world, with_ones)
    if found is None:
        return None
    actual, right, dtype, derivative = found.actual, found.right, precision.dtype, precision.derivative
    others = perturbed(found.high, world, torch.finfo(dtype).eps, constants=True)
    nearby = [world.try_call(lambda at: derivative.of(_like(found.run, at), found.given), at) for at in others]
    name = f"{precision.name}, {derivative.given_name} one" if with_ones else precision.name
    lost = _lost(actual, right)
    if any(world.exchange(bool(lost) and not any(_lost(one, right) for one in nearby if one is not None))):
        need(dtype is not torch.float16, f"its {derivative.name}s {name} are beyond the range of that dtype")
        if not lost:  # it is so on another rank
            return None
        one, other = expect.shown_apart(actual[lost[0]], right[lost[0]])
        what = f"{derivative.name} of {derivative.place(found.run, lost[0])} {name}: not finite"
        return Deviation(what, one, f"{other} {precision.beside}")
    rough = max(math.inf if moved is None else worst_error(moved, right)[0] for moved in nearby)
    largest = max([*(float(c.abs().max()) for c in found.given if c.numel()), *map(size_of, right)])
    near = precision.tolerance + tolerances.LOST_BY_FORWARD * found.lost + tolerances.BEYOND_ROUGH * rough
    gaps = [worst_error([one], [other], largest)[0] for one, other in zip(actual, right, strict=True)]
    if not any(world.exchange(any(gap > near for gap in gaps))):
        is_told = all(world.exchange(near < 1))
        need(is_told or with_ones, f"rounding alone may double a {derivative.name} {precision.name}")
        if is_told:  # incoming gradients of one may cancel out, and the others were judged
            oracle = f"the {derivative.name} in double precision"
            agrees = Judgement("agrees", oracle, error=max(gaps), resolution=near, elsewhere=near)
            world.note(f"{derivative.name}s of {point.label} {name}", agrees)
        return None
    if draws_by_any_seed(point, world):
        return None
    left = _left_by_rounding(found, precision, world)
    wrong = [at for at, gap in enumerate(gaps) if gap > near and _apart(actual[at], right[at]) > left[at]]
    if not wrong:
        return None
    place = max(wrong, key=lambda at: gaps[at])
    what = f"{derivative.name} of {derivative.place(found.run, place)} {name}"
    allowed = f"off by {gaps[place]:.2g} of its size, and {near:.2g} is allowed"
    one, other = expect.shown_apart(actual[place], right[place])
    likely = _stopped_growing(found, place, derivative) if world.size == 1 else ""
    return Deviation(f"{what}: {allowed}", one, f"{other} {precision.beside}", likely)


def _lost(actual: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> list[int]:
    """Return the places of gradients with elements that are not finite where the right ones are."""
    pairs = enumerate(zip(actual, right, strict=True))
    return [at for at, (a, b) in pairs if bool((~dense(a).isfinite() & dense(b).isfinite()).any())]


def _left_by_rounding(found: _InBoth, precision: LowerPrecision, world: World) -> list[float]:
    """Return how far rounding may move each gradient, by what it moves it from point to point.

    A bias before a normalization makes no difference: its gradient cancels except for rounding. So do those of a
    softmax whose incoming gradients are one.
    """
    eps = torch.finfo(precision.dtype).eps

    def elsewhere(moved: SampleCall) -> list[torch.Tensor]:
        pair = precision.pair(moved)
        return precision.derivative.of((pair[0] if pair else moved).run(), found.given)

    others = [world.try_call(elsewhere, moved) for moved in perturbed(found.high, world, eps, tries=4)]
    return [
        tolerances.BEYOND_ROUGH * max((_apart(one, other[at]) for other in others if other is not None), default=0.0)
        for at, one in enumerate(found.actual)
    ]


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return size_of(to_double(one.detach()) - to_double(other.detach()))


def _stopped_growing(found: _InBoth, at: int, derivative: Derivative) -> str:
    """Name the cause, if it is too small and the same numbers in single precision have the right one."""
    actual, right = to_double(found.actual[at]), to_double(found.right[at])
    single = in_dtype(found.high, torch.float32)
    if torch.finfo(found.actual[at].dtype).bits == 32 or single is None or not actual.numel():
        return ""
    worst = int((actual - right).abs().argmax())
    if not actual.reshape(-1)[worst].abs() < right.reshape(-1)[worst].abs():
        return ""
    try:
        there = to_double(derivative.of(single.run(), found.given)[at])
    except Exception:  # it need not take single precision
        return ""
    is_right = torch.allclose(there, right, rtol=tolerances.ABOUT_RTOL, atol=tolerances.ABOUT_ATOL)
    return "a sum in low precision that stopped growing" if is_right else ""
