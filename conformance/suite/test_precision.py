"""Gradients in other dtypes than the samples have, and under autocast."""

from __future__ import annotations

from functools import partial

import torch

from conformance.kit import NO_JVP, Probe, SampleCall, Subject, World, cases, clause, expect, many, need
from conformance.kit.observation.looks import backwards, look_at
from conformance.kit.observation.witness import ObservedCall
from conformance.kit.variations.lower_precision import TANGENTS, LowerPrecision, expect_as_in_double
from conformance.kit.variations.variants import draws, in_dtype, repeatable
from conformance.kit.variations.ways import under


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
    need(any(world.exchange(bool(seen))), "backward returned no tensor")


def _is_of_one_dtype(call: ObservedCall) -> bool:
    """Whether forward was made for any dtype: its results have that of its inputs."""
    values = (*call.inputs, *many(call.output))
    return len({value.dtype for value in values if torch.is_tensor(value) and value.is_floating_point()}) == 1


@clause("Function.backward.gradient")
@cases(dtype=["float32", "float16", "bfloat16"])
def test_gradient_in_another_dtype(probe: Probe, dtype: str) -> None:
    """In other dtypes that the subject accepts, the gradient is the one in double precision, up to rounding."""
    kind, sample = getattr(torch, dtype), repeatable(probe.sample, probe.world)
    why = f"it accepts no sample in {dtype}, or none in double precision, or all samples are in {dtype} already"
    expect_as_in_double(sample, probe.world, LowerPrecision.of(kind), why)


@clause("Function.jvp.tangent")
@cases(dtype=["float32", "float16", "bfloat16"])
def test_tangent_in_another_dtype(probe: Probe, dtype: str) -> None:
    """In other dtypes that the subject accepts, tangents are those in double precision, up to rounding."""
    need(probe.sample.subject.defines("jvp"), NO_JVP)
    kind, sample = getattr(torch, dtype), repeatable(probe.sample, probe.world)
    why = f"it has no tangents in {dtype}, or none in double precision, or all samples are in {dtype} already"
    expect_as_in_double(sample, probe.world, LowerPrecision.of(kind, TANGENTS), why)


@clause("Function.autocast.backward")
def test_gradients_under_autocast_agree(probe: Probe) -> None:
    """With forward under autocast, gradients are those without, up to rounding."""
    world, sample = probe.world, in_dtype(probe.sample, torch.float32) or probe.sample
    refused = "it raises an error under autocast or in single precision, or draws random numbers"
    need(world.try_call(draws, sample, world) is False, refused)
    name = "with forward under autocast"
    autocast = _autocast(world)
    lower = LowerPrecision(name, torch.bfloat16, "without autocast", lambda point: (under(point, autocast), point))
    expect_as_in_double(sample, world, lower, refused)


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


def _autocast(world: World) -> partial[torch.autocast]:
    return partial(torch.autocast, world.device.partition(":")[0], torch.bfloat16)


def _in_precision(given: SampleCall, precision: str, world: World) -> SampleCall | None:
    if precision != "autocast":
        return in_dtype(given, getattr(torch, precision))
    return under(in_dtype(given, torch.float32) or given, _autocast(world))


def _cause(error: Exception) -> str:
    """Name mixed dtypes as the cause, in PyTorch's own words."""
    mixed = any(words in str(error) for words in ("same dtype", "expected scalar type", "should be the same"))
    return "tensors of two dtypes in one operation: a saved one, and the gradient of a result" if mixed else ""
