"""``backward`` away from the samples: at zeros, at large numbers, beside constants that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from conformance.kit import (
    Deviation,
    Probe,
    Run,
    SampleCall,
    World,
    cases,
    clause,
    in_double,
    is_strided,
    need,
    same_values,
)
from conformance.kit.numerics.derivatives import slope_along
from conformance.kit.numerics.gradient_checks import expect_derivative, result_epsilon
from conformance.kit.numerics.nearby import points_near, rms_size
from conformance.kit.numerics.triangles import kept_symmetric
from conformance.kit.numerics.zeros import contradicted_by, derivative_close_by, is_affine
from conformance.kit.tensors import dense, is_arrangeable
from conformance.kit.variations.variants import repeatable, with_number

#: What a gradient may come from that is not finite, or not right, at a zero or at large numbers.
DIVIDED = "backward divides by a value that may be zero, or takes its logarithm"
GUARDED = "backward handles zero as a special case, for example to guard against division by zero"
LEFT_OUT = "backward multiplies by a value that is not finite, where forward leaves the element out"
LEFT_RANGE = "backward computes a value outside the range of the dtype, such as an exponential; forward does not"
SEEDED = "backward draws forward's random numbers again from a seed, which says only where the generator began"
GradientsByPlace = dict[int, torch.Tensor | None]


@clause("Function.backward.gradient")
def test_gradient_is_finite_at_a_zero(probe: Probe) -> None:
    """With a zero in an input, a finite result has a finite gradient if it has a derivative."""
    taken = _expect_finite_with(0.0, _numeric(probe), probe.world, DIVIDED)
    need(taken, "it accepts no sample with a zero")


@clause("Function.backward.gradient")
def test_gradient_is_finite_at_a_row_of_zeros(probe: Probe) -> None:
    """With a row of zeros, a finite result has a finite gradient if it has a derivative: a norm is zero there."""
    need(probe.world.size == 1, "checked on one rank only: a single row is changed")
    world, sample, taken = probe.world, _numeric(probe), False
    here = sample.run()
    gradients = _by_place(here, world)
    need(all(one is None or _first_not_finite(one) is None for one in gradients.values()), "it is not finite anyway")
    for at in sample.active:
        other = _with_a_row_of_zeros(sample, at, gradients[at])
        found = world.try_call(_taken_finitely, other, world) if other else None
        if found and world.try_call(_is_row_by_row, here, found[0], at):
            taken = True
            _expect_finite(world, found[0], at, found[1][at], DIVIDED)
    need(taken, "it accepts no sample with a row of zeros, or its rows are not independent")


def _with_a_row_of_zeros(sample: SampleCall, at: int, gradient: torch.Tensor | None) -> SampleCall | None:
    """Return the sample with zeros in the row of one input that has the largest gradient."""
    value = sample.values[at].detach()
    if gradient is None or not value.numel() or not is_strided(value) or not is_strided(gradient) or not value.dim():
        return None
    changed = value.clone(memory_format=torch.contiguous_format)
    row = int(gradient.detach().abs().reshape(-1).argmax()) // value.shape[-1]
    changed.view(-1, value.shape[-1])[row] = 0
    return replace(sample.having({at: changed}), label=f"{sample.label} with a row of zeros in {sample.names[at]}")


def _is_row_by_row(here: Run, there: Run, at: int) -> bool:
    """Whether a change of one row of an input changes that row of each result alone."""
    before, after = here.sample.values[at].detach(), there.sample.values[at].detach()
    leading = before.shape[:-1]
    same = (before == after).all(-1)
    pairs = list(zip(here.outputs, there.outputs, strict=True))
    return all(
        one.shape[: len(leading)] == leading == other.shape[: len(leading)] and same_values(one[same], other[same])
        for one, other in pairs
    )


def _numeric(probe: Probe) -> SampleCall:
    """Return the sample to put numbers into.

    Raises:
        NotApplicable: its gradient is not meant to be the derivative, or no two calls are equal.
    """
    sample = repeatable(probe.sample, probe.world)
    need(sample.subject.gradient_kind == "numeric", "its gradient is a declared one")
    return sample


@clause("Function.backward.gradient")
def test_gradient_is_right_after_other_random_numbers(probe: Probe) -> None:
    """If other random numbers were drawn before the call, the gradient is still the derivative."""
    world, sample = probe.world, in_double(probe.sample)
    need(sample.subject.gradient_kind == "numeric", "its gradient is a declared one, or its spec defines it")
    need(probe.draws and world.size == 1, "it draws no random numbers, or its ranks communicate")
    right = world.try_call(expect_derivative, sample, world, is_explained=False)
    need(right is not None, "its gradient is already wrong for the samples themselves")
    try:
        expect_derivative(_after_a_draw(sample), world, is_derived=True, is_explained=False)
    except Deviation as error:
        error.likely = SEEDED
        raise


def _after_a_draw(sample: SampleCall) -> SampleCall:
    """Return the sample, called after a random number was drawn."""

    def call(function: object, *args: object) -> object:
        torch.rand(())
        return called(*args)

    called = sample.subject.called
    label = f"{sample.label}, after a random number was drawn"
    return replace(sample, subject=replace(sample.subject, call=call), label=label, is_derived=True)


@clause("Function.backward.gradient")
def test_gradient_is_right_at_a_zero(probe: Probe) -> None:
    """With a zero in an input, a finite gradient is the derivative, if forward is smooth there.

    Where results grow evenly with an input, gradients of zero may be meant: weights that are pruned stay so.
    """
    need(probe.world.size == 1, "checked on one rank only: a single element is changed")
    world, sample, taken = probe.world, _numeric(probe), 0
    right = world.try_call(expect_derivative, sample, world, is_explained=False)
    need(right is not None, "its gradient is already wrong for the samples themselves")
    for at in sorted(sample.top.intersection(sample.active)):
        points = points_near(sample, world, tries=1)
        here, *there = (world.try_call(_wrong_at_a_zero, point, at, world) for point in points)
        taken += here is not None
        if here and there and there[0]:
            what, actual, expected = here
            raise Deviation(what, actual, expected, GUARDED)
    need(taken, "it accepts no sample with a zero")


def _wrong_at_a_zero(sample: SampleCall, at: int, world: World) -> tuple[str, ...] | None:
    """Describe a wrong gradient at a zero of an input; empty if it is right."""
    here = sample.run()
    gradient = _by_place(here, world)[at]
    zero = with_number(sample, at, gradient, 0.0)
    run, gradients = _taken_finitely(zero, world) or (None, {}) if zero else (None, {})
    there = gradients.get(at)
    if run is None or gradient is None or there is None or there.dtype.is_complex:
        return None
    element = int(gradient.detach().abs().reshape(-1).argmax())
    along = torch.zeros_like(gradient, memory_format=torch.contiguous_format)
    along.view(-1)[element] = 1.0
    if kept_symmetric(here, at, along, gradient) is not along:
        return None
    claimed = float(dense(there.detach()).reshape(-1)[element])
    if not math.isfinite(claimed):
        return ()
    right = contradicted_by(run, run.cotangents(world), at, element, claimed, result_epsilon(world, run))
    if math.isnan(right) or (claimed == 0 and there.numel() > 1 and is_affine(run, at)):
        return ()
    place = [int(each) for each in torch.unravel_index(torch.tensor(element), there.shape)]
    return f"gradient of {run.sample.name(at)}", f"{claimed:.6g} at {place}", f"{right:.6g} by differences of forward"


@clause("Function.backward.large-numbers")
@cases(number=[1000.0, -1000.0])
def test_gradient_is_finite_at_a_large_number(probe: Probe, number: float) -> None:
    """With a large number in an input, a finite result has a finite gradient if it has a derivative."""
    taken = _expect_finite_with(number, _numeric(probe), probe.world, LEFT_RANGE)
    need(taken, f"it takes no sample with a number of {number:g}, or its gradient is infinite for the samples")


@clause("Function.backward.large-numbers")
@cases(number=["-inf", "nan"])
def test_gradient_is_finite_beside_a_constant_that_is_not(probe: Probe, number: str) -> None:
    """With -inf or NaN in a constant, such as a mask that is added, a finite result has a finite gradient."""
    with_it = list(_with_constant(_numeric(probe), float(number), probe.world))
    for run, gradients in with_it:
        _expect_finite_gradients(run, gradients, probe.world, LEFT_OUT)
    need(
        with_it, f"it has no constant in which {number} leaves out an element: no result is finite, or none follows it"
    )


def _with_constant(sample: SampleCall, number: float, world: World) -> Iterator[tuple[Run, GradientsByPlace]]:
    """Call the sample with a number in one constant after the other, if results are finite, and follow the constant.

    What takes the magnitude of -inf, as distances do, has another meaning for it than to leave an element out.
    """
    for at, value in enumerate(sample.values):
        if not is_arrangeable(value) or at in (*sample.active, *sample.of_modules) or value.numel() < 2:
            continue
        one, other, opposite, there = (
            world.try_call(_taken_finitely, _with_middle(sample, at, each), world)
            for each in (-1.0, -2.0, -number, number)
        )
        is_followed = one and other and not all(map(same_values, one[0].outputs, other[0].outputs))
        if there and all(world.exchange(bool(is_followed))) and (opposite is None or math.isnan(number)):
            yield there


def _with_middle(sample: SampleCall, at: int, number: float) -> SampleCall:
    changed = sample.values[at].detach().clone(memory_format=torch.contiguous_format)
    changed.view(-1)[changed.numel() // 2] = number
    label = f"{sample.label} with {number:g} in the middle of {sample.names[at]}"
    return replace(sample.having({at: changed}), label=label)


def _expect_finite_with(number: float, sample: SampleCall, world: World, cause: str) -> bool:
    """Expect finite gradients with a number in one input after the other; whether any such call has finite results."""
    gradients = _by_place(sample.run(), world)
    broken = any(gradient is not None and _first_not_finite(gradient) is not None for gradient in gradients.values())
    if any(world.exchange(broken)):  # as it is of the sample itself
        return False
    is_taken = False
    for at in sample.active:
        other = world.try_call(with_number, sample, at, gradients[at], number)
        found = world.try_call(_taken_finitely, other, world) if other else None
        if found is None:
            continue
        is_taken = True
        _expect_finite_gradients(*found, world, cause)
    return is_taken


def _expect_finite_gradients(run: Run, gradients: GradientsByPlace, world: World, cause: str) -> None:
    for place, gradient in gradients.items():
        _expect_finite(world, run, place, gradient, cause)


def _taken_finitely(sample: SampleCall, world: World) -> tuple[Run, GradientsByPlace] | None:
    """Return the call and its gradients if its results are finite on every rank, otherwise None."""
    run = sample.run()
    finite = bool(run.outputs) and all(bool(dense(output.detach()).isfinite().all()) for output in run.outputs)
    return (run, _by_place(run, world)) if all(world.exchange(finite)) else None


def _expect_finite(world: World, run: Run, at: int, gradient: torch.Tensor | None, cause: str) -> None:
    """Assert that a gradient is finite, except in places where differences find no derivative either."""
    value = run.sample.values[at].detach()
    wrong = _first_not_finite(gradient) if gradient is not None and is_strided(value) else None
    if not any(world.exchange(wrong is not None)):
        return
    along = torch.zeros_like(value, memory_format=torch.contiguous_format)
    if wrong is not None:
        along.view(-1)[wrong] = rms_size(value)
    eps, cotangents = result_epsilon(world, run), run.cotangents(world)
    slope = slope_along(world, run, cotangents, at, gradient, along, eps)
    if wrong is None or gradient is None:
        return
    is_alone = world.size == 1 and not value.dtype.is_complex
    derivative = slope.numeric / rms_size(value)
    if slope.verdict != "differs":
        is_zero = bool(value.reshape(-1)[wrong] == 0)
        close_by = (
            world.try_call(derivative_close_by, run, cotangents, at, wrong, eps) if is_alone and is_zero else None
        )
        if close_by is None or math.isnan(close_by):
            return
        derivative = close_by
    place = torch.unravel_index(torch.tensor(wrong), value.shape)
    told = f"{derivative:.6g}" if is_alone else "a finite number"
    raise Deviation(
        f"gradient of {run.sample.name(at)}, where results are finite",
        f"{dense(gradient).reshape(-1)[wrong].item()} at {[int(each) for each in place]}",
        f"{told} by differences of forward",
        cause,
    )


def _first_not_finite(gradient: torch.Tensor) -> int | None:
    finite = dense(gradient).isfinite().reshape(-1)
    return None if bool(finite.all()) else int(finite.byte().argmin())


def _by_place(run: Run, world: World) -> GradientsByPlace:
    return dict(zip(run.leaves, run.gradients(run.cotangents(world)), strict=True))
