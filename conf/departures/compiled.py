"""Departures of ``torch.compile``; those that the suite has calls for are asked through these."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from conformance.kit.observation.compiled import BACKEND, compiling
from conformance.kit.observation.compiled_engine import is_wrong
from conformance.kit.world import World


def _differs(call: str, backend: str = BACKEND) -> bool:
    """Whether a call of the suite gives another number when it is compiled."""
    return is_wrong(World(), call, backend)


def compiled_func_grad() -> bool:
    """``torch.compile`` of ``torch.func.grad`` or ``torch.func.vjp``

    The Function's backward is left out silently: the gradient is that of the operations in forward
    ([#193279](https://github.com/pytorch/pytorch/issues/193279)).
    """
    return _differs("torch.func.grad inside") and _differs("torch.func.vjp inside")


def compiled_func_jvp() -> bool:
    """``torch.compile`` of ``torch.func.jvp``

    The Function's jvp is left out likewise, in forward mode too
    ([#192985](https://github.com/pytorch/pytorch/issues/192985)).
    """
    return _differs("torch.func.jvp inside")


def compiled_forward_mode() -> bool:
    """Forward mode through ``torch.compile``

    The Function's jvp is left out for dual tensors that are made inside compiled code or given to it
    ([#192985](https://github.com/pytorch/pytorch/issues/192985)).
    """
    return _differs("forward mode inside") and _differs("forward mode around")


def compiled_vmap() -> bool:
    """``torch.compile`` of ``torch.vmap``

    The Function's own vmap is left out ([#186330](https://github.com/pytorch/pytorch/pull/186330)); with
    ``backend="eager"`` also if ``torch.vmap`` is around compiled code.
    """
    return _differs("torch.vmap inside") and _differs("torch.vmap around", "eager")


def compiled_second_derivative() -> bool:
    """A second derivative through ``torch.compile(backend="eager")``

    Results of the Function's backward count as constants, silently, also in ``torch.func.grad`` twice. Other
    backends raise.
    """
    calls = ("second derivative around", "second derivative inside", "torch.func.grad twice around")
    return all(_differs(call, "eager") for call in calls)


def compiled_in_place() -> bool:
    """``mark_dirty`` under ``torch.compile``

    If a Function changes a tensor in place that was made outside the compiled code, its backward is silently left
    out, and the gradient is that of the tensor's old values.
    """
    return _differs("gradient in place of a tensor from outside")


class _Noted(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.metadata["factor"] = 3
        return 3 * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        factor: int = ctx.metadata.get("factor", 1)
        return factor * grad


def compiled_metadata() -> bool:
    """``metadata`` under ``torch.compile``

    Values that forward puts into the node's dict are missing in backward.
    """
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    with compiling():
        result: torch.Tensor = torch.compile(lambda x: _Noted.apply(x), backend=BACKEND)(x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    return not torch.equal(gradient, 3 * torch.ones_like(x))


class _SquareOfSaved(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def compiled_version_check() -> bool:
    """A saved tensor changed in place, under ``torch.compile``

    With ``backend="eager"`` backward computes with the new values and does not raise.
    """
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    inside = x.clone()
    with compiling():
        result = torch.compile(_SquareOfSaved.apply, backend="eager")(inside)
    with torch.no_grad():
        inside.mul_(5)
    try:
        (gradient,) = torch.autograd.grad(result.sum(), x)
    except RuntimeError:
        return False
    return not torch.equal(gradient, 2 * x)


DEPARTURES = (
    compiled_func_grad,
    compiled_func_jvp,
    compiled_forward_mode,
    compiled_vmap,
    compiled_second_derivative,
    compiled_in_place,
    compiled_metadata,
    compiled_version_check,
)
