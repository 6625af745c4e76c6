"""What PyTorch promises about custom_fwd and custom_bwd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import leaf


def _kind(world: World) -> str:
    return str(torch.device(world.device).type)


def _state(world: World) -> tuple[bool, torch.dtype]:
    kind = _kind(world)
    return torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)


def _decorated(world: World, note: Callable[..., None], cast: torch.dtype | None = None) -> Any:
    """A Function whose forward and backward are decorated, and which tells ``note`` of each call."""
    kind = _kind(world)

    class Decorated(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=kind, cast_inputs=cast)  # type: ignore[untyped-decorator]
        def forward(ctx: Any, x: Any, more: Any) -> Any:
            note(x, more[0], more[1])
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type=kind)  # type: ignore[untyped-decorator]
        def backward(ctx: Any, grad: Any) -> Any:
            note(grad)
            return grad * 2, None

    return Decorated


def _autocast(world: World, dtype: torch.dtype, enabled: bool = True) -> Any:
    return torch.autocast(_kind(world), dtype=dtype, enabled=enabled)


@clause("Function.amp.custom-fwd")
@cases(enabled=[True, False])
def test_forward_runs_in_the_callers_state(world: World, enabled: bool) -> None:
    """Without cast_inputs, forward has its caller's autocast state and unchanged inputs."""
    seen: list[Any] = []
    function = _decorated(world, lambda *tensors: seen.append((_state(world), [one.dtype for one in tensors])))
    x = leaf(world, 1.0).float()
    with _autocast(world, torch.bfloat16, enabled):
        function.apply(x, [x, x.int()])
        expected = (_state(world), [torch.float32, torch.float32, torch.int32])
    expect.equal(seen, [expected], "autocast and dtypes in a forward under custom_fwd")


@clause("Function.amp.custom-fwd")
@cases(enabled=[True, False])
def test_inputs_are_cast_under_autocast_alone(world: World, enabled: bool) -> None:
    """With cast_inputs and under autocast, floating-point tensors come in that dtype; outside, as they are."""
    seen: list[Any] = []
    note = lambda *tensors: seen.append((_state(world)[0], [one.dtype for one in tensors]))  # noqa: E731
    half = torch.ones(2, dtype=torch.bfloat16, device=world.device)
    with _autocast(world, torch.bfloat16, enabled):
        _decorated(world, note, torch.float32).apply(half, [half, half.int()])
    kind = torch.float32 if enabled else torch.bfloat16
    expect.equal(seen, [(False, [kind, kind, torch.int32])], "autocast and dtypes in a forward with cast_inputs")


@clause("Function.amp.custom-bwd")
@cases(forward=["bfloat16", "float16", "off"], backward=["bfloat16", "off"])
def test_backward_runs_in_the_state_of_forward(world: World, forward: str, backward: str) -> None:
    """Forward runs under one autocast or none, backward is called under another or none."""
    seen: list[Any] = []
    function = _decorated(world, lambda *tensors: seen.append(_state(world)))
    x = leaf(world, 1.0).float()

    def under(name: str) -> Any:
        return _autocast(world, torch.bfloat16 if name == "off" else getattr(torch, name), name != "off")

    with under(forward):
        result = function.apply(x, [x, x])
    with under(backward):
        result.sum().backward()
    expect.equal(seen[1], seen[0], f"autocast in backward, where forward ran under {forward}")
