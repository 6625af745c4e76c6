"""The dtypes of gradients, and gradients under autocast."""

from __future__ import annotations

from functools import partial

import torch

from conformance.kit import Probe, SampleCall, Subject, World, cases, clause, expect, in_double, many, need
from conformance.kit.numerics.nearby import perturbed
from conformance.kit.observation.looks import backwards, look_at
from conformance.kit.observation.witness import ObservedCall
from conformance.kit.oracles.sample import HALVES
from conformance.kit.variations.variants import draws, in_dtype
from conformance.kit.variations.ways import under

#: Gradients in half precision may be off by this part of the largest element, beside what rounding the inputs changes.
FORGIVEN = 0.1


@clause("Function.backward.dtype")
def test_gradients_have_the_dtype_of_their_inputs(subject: Subject, world: World) -> None:
    """A gradient from backward has the dtype and device of its input, before autograd casts it."""
    own, seen = look_at(subject, world), 0
    derived = look_at(subject, world, derived=True)[len(own) :]
    looks = [*own, *(look for look in derived if all(map(_is_of_one_dtype, look.witness.calls)))]
    for name, call, backward in backwards(looks):
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


def _is_of_one_dtype(call: ObservedCall) -> bool:
    """Whether forward was made for any dtype: its results have that of its inputs."""
    values = (*call.inputs, *many(call.output))
    return len({value.dtype for value in values if torch.is_tensor(value) and value.is_floating_point()}) == 1


@clause("Function.autocast.backward")
def test_gradients_under_autocast_agree(probe: Probe) -> None:
    """With forward under autocast, gradients are near those without, as far as rounding the inputs lets tell."""
    world, sample = probe.world, in_dtype(probe.sample, torch.float32) or probe.sample
    refused = "it raises an error under autocast or in single precision, or draws random numbers"
    right = probe.unless_refused(refused, _gradients, sample, sample, world)
    need(not draws(sample, world), refused)
    actual = probe.unless_refused(refused, _gradients, sample, under(sample, _autocast(world)), world)
    nearby = [world.try_call(_gradients, point, point, world) for point in perturbed(sample, world, 2.0**-8)]
    need(any(nearby), "it raises an error for rounded inputs")
    for at, one, expected, *others in zip(sample.active, actual, right, *filter(None, nearby), strict=True):
        allowed = _allowed(expected, others)
        expect.that(
            not _gap(one, expected) > allowed,
            f"gradient of {sample.name(at)} with forward under autocast, to {allowed:.2g}",
            one,
            f"{expect.shown(expected)} without autocast",
        )


def _autocast(world: World) -> partial[torch.autocast]:
    return partial(torch.autocast, world.device.partition(":")[0], torch.bfloat16)


def _allowed(right: torch.Tensor, nearby: list[torch.Tensor]) -> float:
    """How far off a gradient may be, by its size and by how far rounding the inputs moves it."""
    return FORGIVEN * _gap(right, torch.zeros_like(right)) + 10 * max(_gap(right, one) for one in nearby) + 1e-6


@clause("Function.backward.any-precision")
@cases(precision=["float32", "float16", "bfloat16", "autocast"])
def test_backward_takes_the_precision_that_forward_takes(probe: Probe, precision: str) -> None:
    """Backward raises no error for a sample in a lower precision, or under autocast, that forward accepts."""
    world, refused = probe.world, f"it accepts no sample in {precision}, or every sample is in it already"
    probe.unless_refused(refused, lambda: probe.gradients)  # which other clauses report
    sample = _in_precision(probe.sample, precision, world)
    run = probe.unless_refused(refused, lambda: sample.run() if sample else None)
    need(all(world.exchange(bool(run.outputs))), refused)
    how = "forward under autocast" if precision == "autocast" else f"in {precision}"
    with expect.no_error(f"gradients of {probe.label}, {how}, which forward accepts", "gradients", _cause):
        run.gradients(run.cotangents(world))


def _in_precision(given: SampleCall, precision: str, world: World) -> SampleCall | None:
    if precision != "autocast":
        return in_dtype(given, getattr(torch, precision))
    return under(in_dtype(given, torch.float32) or given, _autocast(world))


def _cause(error: Exception) -> str:
    """Name mixed dtypes as the cause, in PyTorch's own words."""
    mixed = any(words in str(error) for words in ("same dtype", "expected scalar type", "should be the same"))
    return "tensors of two dtypes in one operation: a saved one, and the gradient of a result" if mixed else ""


@clause("Function.backward.gradient")
def test_gradients_of_one_sign_add_up_in_lower_precision(probe: Probe) -> None:
    """Samples in half precision get, for incoming gradients of ones, about the gradients of double precision."""
    sample, world = probe.sample, probe.world
    need(sample.subject.gradient_kind == "numeric", "its gradient is a declared one, or is defined by its spec")
    run, wide = sample.run(), in_double(sample)
    is_low = wide is not sample and all(one.dtype in HALVES for one in (*run.leaves.values(), *run.outputs))
    why = "no sample has input and result in half precision, and is accepted in double precision too"
    need(is_low and not probe.draws, why)
    ones = [torch.ones_like(output) for output in run.outputs]
    actual = [gradient.double() for gradient in run.filled(run.gradients(ones))]
    right = _widely(wide, ones)
    nearby = [world.try_call(_widely, point, ones) for point in perturbed(wide, world, 2.0**-8)]
    need(any(nearby), why)
    for at, one, expected, *others in zip(sample.active, actual, right, *filter(None, nearby), strict=True):
        if _gap(expected, torch.zeros_like(expected)) < torch.finfo(sample.values[at].dtype).max:
            allowed = _allowed(expected, others)
            is_off = _gap(one, expected) > allowed
            expect.that(
                not is_off,
                f"gradient of {sample.name(at)}, incoming gradients one, to {allowed:.2g}",
                one,
                f"{expect.shown(expected)} in double precision",
                _stopped_growing(wide, at, ones, one, expected) if is_off else "",
            )


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
