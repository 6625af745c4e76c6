"""The dtypes of gradients, and gradients under autocast."""

from __future__ import annotations

from functools import partial

import torch

from conformance.kit import (
    Run,
    SampleCall,
    Subject,
    World,
    cases,
    clause,
    differentiated,
    expect,
    in_double,
    many,
    need,
)
from conformance.kit.numerics.nearby import perturbed
from conformance.kit.observation.looks import backwards, look_at
from conformance.kit.oracles.sample import HALVES
from conformance.kit.variations.variants import draws, in_dtype
from conformance.kit.variations.ways import under

#: Gradients in half precision may be off by this part of the largest element, beside what rounding the inputs changes.
FORGIVEN = 0.1


@clause("Function.backward.dtype")
def test_gradients_have_the_dtype_of_their_inputs(subject: Subject, world: World) -> None:
    """A gradient from backward has the dtype and device of its input, before autograd casts it."""
    seen = 0
    for name, call, backward in backwards(look_at(subject, world)):
        for index, (value, given) in enumerate(zip(many(backward.returned), call.inputs, strict=False)):
            if isinstance(value, torch.Tensor) and isinstance(given, torch.Tensor):
                seen += 1
                expect.that(
                    (value.dtype, value.device) == (given.dtype, given.device),
                    f"gradient of input {index} returned by {name}",
                    f"{value.dtype} on {value.device}",
                    f"{given.dtype} on {given.device}, as the input",
                )
    need(seen, "backward returned no tensor")


@clause("Function.autocast.backward")
def test_gradients_under_autocast_agree(subject: Subject, world: World) -> None:
    """With forward under autocast, gradients are near those without, as far as rounding the inputs lets tell."""
    compared = 0
    for given, _ in differentiated(subject, world):
        sample = in_dtype(given, torch.float32) or given
        plain = world.try_call(_gradients, sample, sample, world)
        if plain is None or draws(sample, world):
            continue
        mixed = under(sample, partial(torch.autocast, world.device.partition(":")[0], torch.bfloat16))
        actual = world.try_call(_gradients, sample, mixed, world)
        if actual is None:
            continue
        moved = [world.try_call(_gradients, point, point, world) for point in perturbed(sample, world, 2.0**-8)]
        nearby = [gradients for gradients in moved if gradients is not None]
        if not nearby:
            continue  # forward refuses what rounding makes of the sample
        compared += 1
        for at, (one, right) in enumerate(zip(actual, plain, strict=True)):
            spread = max(_gap(right, other[at]) for other in nearby)
            allowed = FORGIVEN * _gap(right, torch.zeros_like(right)) + 10 * spread + 1e-6
            expect.that(
                not _gap(one, right) > allowed,
                f"gradient of {sample.name(sample.active[at])} with forward under autocast, to {allowed:.2g}",
                one,
                f"{expect.shown(right)} without autocast",
            )
    need(compared, "it raises an error under autocast or in single precision, or draws random numbers")


@clause("Function.backward.any-precision")
@cases(precision=["float32", "float16", "bfloat16", "autocast"])
def test_backward_takes_the_precision_that_forward_takes(subject: Subject, world: World, precision: str) -> None:
    """Backward raises no error for a sample in a lower precision, or under autocast, that forward accepts."""
    taken = 0
    for given, _ in differentiated(subject, world):
        sample = _in_precision(given, precision, world)
        # If the sample itself fails, other clauses report it.
        fine = world.try_call(lambda one: _pulled(one.run(), world) or None, given)
        run = world.try_call(lambda one: one.run() if one else None, sample) if fine else None
        if run is None or not all(world.exchange(bool(run.outputs))):
            continue
        taken += 1
        how = "forward under autocast" if precision == "autocast" else f"in {precision}"
        with expect.no_error(f"gradients of {given.label}, {how}, which forward accepts", "gradients", _cause):
            _pulled(run, world)
    need(taken, f"it accepts no sample in {precision}, or every sample is in it already")


def _in_precision(given: SampleCall, precision: str, world: World) -> SampleCall | None:
    if precision != "autocast":
        return in_dtype(given, getattr(torch, precision))
    mode = partial(torch.autocast, world.device.partition(":")[0], torch.bfloat16)
    return under(in_dtype(given, torch.float32) or given, mode)


def _pulled(run: Run, world: World) -> bool:
    """Go through backward; whether there is anything to go through."""
    run.gradients(run.cotangents(world))
    return bool(run.outputs)


def _cause(error: Exception) -> str:
    """Name mixed dtypes as the cause, in PyTorch's own words."""
    mixed = any(words in str(error) for words in ("same dtype", "expected scalar type", "should be the same"))
    return "tensors of two dtypes in one operation: a saved one, and the gradient of a result" if mixed else ""


@clause("Function.backward.gradient")
def test_gradients_of_one_sign_add_up_in_lower_precision(subject: Subject, world: World) -> None:
    """Samples in half precision get, for incoming gradients of ones, about the gradients of double precision."""
    need(subject.gradient_kind == "numeric", "its gradient is a declared one, or is defined by its spec")
    compared = 0
    for sample, run in differentiated(subject, world):
        wide = in_double(sample)
        low = all(tensor.dtype in HALVES for tensor in (*run.leaves.values(), *run.outputs))
        if wide is sample or not low or draws(sample, world):
            continue
        ones = [torch.ones_like(output) for output in run.outputs]
        actual = [gradient.double() for gradient in run.filled(run.gradients(ones))]
        right = _widely(wide, ones)
        moved = [world.try_call(_widely, point, ones) for point in perturbed(wide, world, 2.0**-8)]
        nearby = [gradients for gradients in moved if gradients is not None]
        if not nearby:
            continue
        compared += 1
        for at, one, expected, *others in zip(sample.active, actual, right, *nearby, strict=True):
            size, spread = _gap(expected, torch.zeros_like(expected)), max(_gap(expected, other) for other in others)
            if size < torch.finfo(sample.values[at].dtype).max:
                allowed = FORGIVEN * size + 10 * spread + 1e-6
                expect.that(
                    not _gap(one, expected) > allowed,
                    f"gradient of {sample.name(at)}, incoming gradients one, to {allowed:.2g}",
                    one,
                    f"{expect.shown(expected)} in double precision",
                    _stopped_growing(wide, at, ones, one, expected),
                )
    need(compared, "no sample has input and result in half precision, and is accepted in double precision too")


def _stopped_growing(
    wide: SampleCall, at: int, ones: list[torch.Tensor], actual: torch.Tensor, expected: torch.Tensor
) -> str:
    """Name the cause, if the gradient is too small and the same sample in single precision has the right one."""
    worst = int((actual - expected).abs().nan_to_num(torch.inf).argmax())
    single = in_dtype(wide, torch.float32)
    if single is None or not actual.view(-1)[worst].abs() < expected.view(-1)[worst].abs():
        return ""
    run = single.run()
    found = dict(zip(run.leaves, run.filled(run.gradients([given.float() for given in ones])), strict=True))
    right = torch.allclose(found[at].double(), expected, rtol=1e-3, atol=1e-6)
    return "a sum in low precision that stopped growing" if right else ""


def _widely(sample: SampleCall, cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
    run = sample.run()
    return run.filled(run.gradients([given.double() for given in cotangents]))


def _gradients(sample: SampleCall, way: SampleCall, world: World) -> list[torch.Tensor]:
    """Gradients for the incoming gradients of the plain call, in the dtypes of the results."""
    cotangents = sample.run().cotangents(world)
    run = way.run()
    found = run.gradients([given.to(output.dtype) for given, output in zip(cotangents, run.outputs, strict=True)])
    return [gradient.detach().clone() for gradient in run.filled(found)]


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference; infinite if one is finite and the other is not."""
    alike = (one == other) | (one.isnan() & other.isnan())
    differences = torch.where(alike, 0, one - other).abs()
    return float(differences.nan_to_num(torch.inf, torch.inf).max()) if differences.numel() else 0.0
