"""Autocast, and the kernels of device types."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from conformance.kit import clause, expect, need
from operator_spec.spec import call, definition_of, divided, each_tensor, overload_of, tensors_in
from operator_spec.variants import called, error_of, fresh

LOW = torch.bfloat16


@clause("Operator.autocast.rule")
def test_under_autocast_arguments_are_cast_as_the_rule_says(subject: Any, world: Any) -> None:
    """The results of a call with arguments of the rule's dtype."""
    rules = _rules(subject.target)
    need(rules, "no rule for autocast is registered")
    for sample in subject.samples(world):
        args = _single(sample.args)
        need(not divided(subject.target, args)[1], f"PyTorch {torch.__version__} runs no rule with keyword arguments")
        for device, dtype in rules.items():
            if not any(tensor.device.type == device for tensor in tensors_in(args)):
                continue
            with torch.autocast(device, dtype=dtype):
                error = error_of(lambda kept, given: kept.extend(tensors_in(called(subject, given))), found := [], args)
            what = f"under autocast for {device} to {dtype}, sample {sample.label}"
            expect.that(
                error is None, f"a call {what}, returns", f"{type(error).__name__}: {error}", f"to take {dtype}"
            )
            wanted = tensors_in(called(subject, each_tensor(args, lambda x, to=dtype: _cast(x, to))))
            for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
                expect.equal(one.dtype, other.dtype, f"dtype of result {number} {what}")
                expect.close(one, other, f"result {number} {what}, and of arguments cast before")


@clause("Operator.autocast.meta")
def test_under_autocast_the_fake_kernel_gives_the_dtypes_of_the_real_one(subject: Any, world: Any) -> None:
    """The same dtypes: those under which what comes next is compiled."""
    overload_of(subject.target)
    for sample in subject.samples(world):
        args = _single(sample.args)
        need(_dtypes(subject, args) == _dtypes(subject, args, fake=True), "without autocast they differ, or raise")
        for device in {tensor.device.type for tensor in tensors_in(args)}:
            with torch.autocast(device, dtype=LOW):
                real, fake = _dtypes(subject, args), _dtypes(subject, args, fake=True)
            need(real is not None, "it raises under autocast")
            expect.equal(
                fake,
                real,
                f"dtypes from the fake kernel under autocast for {device} to {LOW}, sample {sample.label} "
                "(register_autocast makes them alike, or a kernel that switches autocast off)",
            )


@clause("Operator.kernel.agree")
def test_the_kernel_of_a_device_type_gives_what_the_default_gives(subject: Any, world: Any) -> None:
    """With the kernel of the device type switched off, the results are the same."""
    definition = definition_of(subject.target)
    need(definition is not None and None in definition._backend_fns, "it has no default kernel for all device types")
    assert definition is not None
    for sample in subject.samples(world):
        devices = {tensor.device.type for tensor in tensors_in(sample.args)} & {*filter(None, definition._backend_fns)}
        need(devices, "no kernel is registered for a device type of a sample")
        for device in devices:
            own = tensors_in(called(subject, fresh(sample.args)))
            with definition.set_kernel_enabled(device, enabled=False):
                default = tensors_in(called(subject, fresh(sample.args)))
            for number, (one, other) in enumerate(zip(own, default, strict=True)):
                expect.close(one, other, f"result {number} of the kernel for {device}, sample {sample.label}")


def _rules(target: Any) -> dict[str, torch.dtype]:
    """Return the dtype of each device type, as register_autocast keeps it."""
    return dict(getattr(definition_of(target), "_autocast_dtype", {}))


def _single(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of the arguments in single precision: autocast leaves double precision alone."""
    return each_tensor(fresh(args), lambda x: x.float() if x.is_floating_point() else x)


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _dtypes(subject: Any, args: tuple[Any, ...], fake: bool = False) -> list[torch.dtype] | None:
    """Return the dtypes of the results; None if the kernel raises."""
    if fake:
        with FakeTensorMode(static_shapes=True) as mode:
            return _dtypes(subject, each_tensor(args, mode.from_tensor))
    try:
        return [tensor.dtype for tensor in tensors_in(call(subject.target, fresh(args)))]
    except Exception:
        return None
