"""``apply``: whether it can be called with the samples at all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from conformance.kit import Deviation, SampleCall, Subject, World, clause, every_sample, expect
from conformance.kit.recording import parameter_mismatch


@clause("Function.apply.accepts")
def test_it_takes_its_samples(subject: Subject, world: World) -> None:
    """Every sample is accepted; if not, wrong parameters of forward or setup_context are reported."""
    samples = every_sample(subject, world)
    for sample in samples:
        try:
            sample.run()
        except Exception as error:
            is_call = isinstance(error, TypeError)
            if is_call and (why := _misfit(sample, error)):
                raise Deviation(f"apply, {sample.label}", f"TypeError: {error}", "a result", why) from error
            if is_call and (note := _counted(sample, error)):
                error.add_note(note)
            elif len(samples) > 1:
                error.add_note(f"{sample.label} fails: ({_given(sample)})")
            raise


def _given(sample: SampleCall) -> str:
    """The arguments of a sample, tensors without their values."""
    shown = ((value, expect.shown(value)) for value in sample.arguments())
    return ", ".join(text.partition(" [" if isinstance(value, torch.Tensor) else "\n")[0] for value, text in shown)


def _misfit(sample: SampleCall, error: Exception) -> str:
    """Name the mistake in the parameters of a Function that PyTorch calls; empty if there is none."""
    function, args = sample.subject.function, sample.arguments()
    call = sample.subject.call
    if call is not None and parameter_mismatch(error, call, sample.subject.target, *args):
        return "the parameters of call= must be the class and then the arguments of a sample"
    if function is None or call is not None:
        return ""
    separate = sample.subject.defines("setup_context")
    with_ctx, without = (parameter_mismatch(error, function.forward, *ctx, *args) is not None for ctx in ((None,), ()))
    if separate and without and not with_ctx and _names_ctx(function.forward):
        return "forward takes ctx, but PyTorch calls it without ctx if setup_context is overridden"
    # With a ctx among its parameters, there is one value too many.
    if not separate and with_ctx and not without and not _names_ctx(function.forward):
        return "forward takes no ctx, but PyTorch passes ctx first unless setup_context is overridden"
    if separate and parameter_mismatch(error, function.setup_context, None, args, None):
        return "the parameters of setup_context must be ctx, inputs and output"
    is_refused = without if separate else with_ctx
    if is_refused and sample.subject.spec not in {"Function", "Collective"}:
        return f"it takes other arguments than {sample.subject.spec}; if that is intended, make the call in call="
    return ""


def _counted(sample: SampleCall, error: Exception) -> str:
    """Say how many arguments a sample has, and which method takes another number; empty if the numbers match."""
    subject, args = sample.subject, sample.arguments()
    function = subject.function
    taken = subject.target if function is None else function.forward
    if subject.call is not None or not callable(taken):
        return ""
    ctx = () if function is None or subject.defines("setup_context") else (None,)
    if parameter_mismatch(error, taken, *ctx, *args) is None:
        return ""
    parameters = list(inspect.signature(taken).parameters.values())[len(ctx) :]
    takes = f"({', '.join(map(str, parameters))})" + (" after ctx" if ctx else "")
    return f"{sample.label} is ({_given(sample)}); {getattr(taken, '__name__', 'it')} takes {takes}"


def _names_ctx(forward: Callable[..., Any]) -> bool:
    """Whether the first parameter of a forward has a name that stands for a ctx."""
    name = next(iter(inspect.signature(forward).parameters), "")
    return name.startswith("_") or name in {"self", "cls", "c"} or "ctx" in name or "context" in name
