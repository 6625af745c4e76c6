"""Formulas and marks of a Function, by themselves and under ``torch.func``."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function, forward_ad
from torch.autograd.function import once_differentiable

from departures._probes import numbers, raises


class _Square(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vjp(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class _SquareTwice(_Square):
    backward = _Square.vjp


def vjp_alone() -> bool:
    """``vjp`` under ``torch.func``

    A class that defines only ``vjp`` can be differentiated in eager mode, but ``torch.func.grad`` raises
    ``NotImplementedError``.
    """
    x = numbers(3)
    torch.autograd.grad(_Square.apply(x).sum(), x)
    return raises(NotImplementedError, lambda: torch.func.grad(lambda x: _Square.apply(x).sum())(x.detach()))


def vjp_and_backward() -> bool:
    """``vjp`` beside ``backward``

    A class that defines both is refused in eager mode, and accepted under ``torch.func.grad``.
    """
    x = numbers(3)
    torch.func.grad(lambda x: _SquareTwice.apply(x).sum())(x.detach())
    return raises(RuntimeError, lambda: torch.autograd.grad(_SquareTwice.apply(x).sum(), x))


class _NoTangent(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x * 3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> tuple[torch.Tensor, None]:
        return tangent * 2, None


def none_from_jvp() -> bool:
    """``None`` from ``jvp``

    ``None`` for a floating-point output that is not marked non-differentiable fails an internal assertion. Marked,
    integer and non-tensor outputs accept ``None``, as documented.
    """
    x = numbers(3).detach()
    with forward_ad.dual_level():
        return raises(RuntimeError, lambda: _NoTangent.apply(forward_ad.make_dual(x, torch.ones_like(x))))


class _CubeOnce(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def once_differentiable_twice() -> bool:
    """``once_differentiable``

    If a second path leads to the same input (``loss = y * x``), ``torch.autograd.grad`` of a gradient silently returns
    a wrong second derivative; ``.backward()`` raises.
    """
    x = numbers(3)
    (first,) = torch.autograd.grad((_CubeOnce.apply(x) * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return not torch.allclose(second, 12 * x.detach() ** 2)


class _CubeOnceSeparate(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    backward = _CubeOnce.backward


def once_differentiable_under_func() -> bool:
    """``once_differentiable`` under ``torch.func``

    ``torch.func.grad`` of ``torch.func.grad`` silently returns 0; autograd raises.
    """
    cube = torch.func.grad(torch.func.grad(_CubeOnceSeparate.apply))
    return bool(cube(torch.tensor(2.0, dtype=torch.float64)) == 0)


class _DoubledForAutocast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 2 * grad


def custom_fwd_in_separate_form() -> bool:
    """``custom_fwd`` beside ``setup_context``

    ``custom_bwd`` raises ``AttributeError`` in backward: ``custom_fwd`` took the first input for ctx, and stored its
    attributes there.
    """
    x = numbers(3)
    result = _DoubledForAutocast.apply(x).sum()
    return raises(AttributeError, lambda: torch.autograd.grad(result, x))


DEPARTURES = (
    vjp_alone,
    vjp_and_backward,
    none_from_jvp,
    once_differentiable_twice,
    once_differentiable_under_func,
    custom_fwd_in_separate_form,
)
