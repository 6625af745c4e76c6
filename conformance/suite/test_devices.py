"""Compare calls on an accelerator with the CPU, in any stream."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch

from conformance.kit import (
    Deviation,
    SampleCall,
    Subject,
    World,
    active_samples,
    clause,
    every_sample,
    expect,
    need,
    tolerances,
)
from conformance.kit.modes import OperationMode, carry_out
from conformance.kit.sample_calls import copied_by_name
from conformance.kit.variations.variants import draws, worst_error

NOT_WAITED_FOR = (
    "it reads values that the device has not computed yet: wait for the stream, or do not compute in another one"
)
STREAM = "it computes in the default stream, which does not wait for the caller's stream"

NamedTensor = tuple[str, torch.Tensor]


@clause("Function.forward.device")
def test_same_on_the_device_as_on_the_cpu(subject: Subject, world: World) -> None:
    """A call on an accelerator gives the numbers that the same call gives on the CPU."""
    need(world.device != "cpu", "the run is on the CPU")
    need(not subject.gathers, "its process group cannot move tensors of the CPU")
    there = replace(world, device="cpu")
    compared = 0
    for sample in active_samples(subject, world):
        if world.try_call(draws, sample, world) is not False:
            continue
        right = world.try_call(lambda sample: _results(_on_the_cpu(sample), there), sample)
        if right is not None:
            compared += 1
            actual = _results(sample, world)
            likely = NOT_WAITED_FOR if _differs(actual, right) and _is_right_waiting(sample, right, world) else ""
            _expect_same(actual, right, f"on {world.device}, compared with the same call on the CPU", likely)
    need(compared, "it does not run on the CPU, or draws random numbers")


@clause("Function.forward.device")
def test_same_in_another_stream(subject: Subject, world: World) -> None:
    """A call in another stream, which also makes the inputs, gives the same as in the default stream."""
    need(world.device != "cpu", "only accelerators have streams")
    for sample in every_sample(subject, world):
        right = _results(sample, world)
        outer, stream = torch.accelerator.current_stream(world.device), torch.Stream(world.device)
        stream.wait_stream(outer)
        with stream:
            actual = _results(sample, world)
        outer.wait_stream(stream)
        _expect_same(actual, right, "called in another stream than the default one", STREAM)


def _results(sample: SampleCall, world: World) -> list[NamedTensor]:
    return [(f"{name} of {sample.label}", one) for name, one in copied_by_name(sample.run(), world).items()]


def _on_the_cpu(sample: SampleCall) -> SampleCall:
    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().cpu()
        return deepcopy(value).cpu() if isinstance(value, torch.nn.Module) else value

    return replace(sample, values=tuple(map(moved, sample.values)))


class _Waiting(OperationMode):
    """Waits for the device after every operation."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = carry_out(func, args, kwargs)
        torch.accelerator.synchronize()
        return result


def _is_right_waiting(sample: SampleCall, right: Sequence[NamedTensor], world: World) -> bool:
    """Tell whether the call is right if nothing can be read too early."""

    def waiting() -> list[NamedTensor]:
        with _Waiting():
            return _results(sample, world)

    actual = world.try_call(waiting)
    return actual is not None and not _differs(actual, right)


def _differs(actual: Sequence[NamedTensor], right: Sequence[NamedTensor]) -> bool:
    return any(_apart(one, other) for (_, one), (_, other) in zip(actual, right, strict=True))


def _apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    is_half = one.dtype.is_floating_point and torch.finfo(one.dtype).bits < 32
    gap, _ = worst_error([one.cpu()], [other.cpu()])
    return gap > (tolerances.ON_DEVICE_IN_HALF if is_half else tolerances.ON_DEVICE)


def _expect_same(actual: Sequence[NamedTensor], right: Sequence[NamedTensor], how: str, likely: str) -> None:
    for (name, one), (_, other) in zip(actual, right, strict=True):
        if _apart(one, other):
            raise Deviation(f"{name}, {how}", *expect.shown_apart(one, other.to(one.device)), likely)
