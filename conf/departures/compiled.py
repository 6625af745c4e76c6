"""Departures of ``torch.compile``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function


def _ones() -> torch.Tensor:
    return torch.ones(3, dtype=torch.float64, requires_grad=True)


def _compiled(call: Callable[[torch.Tensor], torch.Tensor], backend: str, x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler looks at things that warn
        return torch.compile(call, backend=backend)(x)


def _gradient_differs(function: Any) -> bool:
    """Whether a Function gives another gradient when it is compiled."""

    def call(x: torch.Tensor) -> torch.Tensor:  # by itself, ``apply`` would not be compiled
        found: torch.Tensor = function.apply(x)
        return found

    one, other = _ones(), _ones()
    (eager,) = torch.autograd.grad(call(one.clone()).sum(), one)
    (compiled,) = torch.autograd.grad(_compiled(call, "aot_eager", other.clone()).sum(), other)
    return not torch.equal(eager, compiled)


class _Surrogate(Function):
    """Its gradient is not that of what it computes, so that one sees which is used."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 100 * grad

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return 100 * tangent


def compiled_func_grad() -> bool:
    """``torch.compile`` of ``torch.func.grad``

    The Function's backward is left out silently: the gradient is that of the operations in forward.
    """
    gradient = torch.func.grad(lambda x: _Surrogate.apply(x).sum())
    x = _ones().detach()
    return not torch.equal(gradient(x), _compiled(gradient, "aot_eager", x))


def compiled_func_jvp() -> bool:
    """``torch.compile`` of ``torch.func.jvp``

    The Function's jvp is left out likewise.
    """
    x = _ones().detach()

    def tangent(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.jvp(_Surrogate.apply, (x,), (torch.ones_like(x),))[1]
        return found

    return not torch.equal(tangent(x), _compiled(tangent, "aot_eager", x))


class _TripledInPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        x.mul_(3)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 3 * grad


def compiled_in_place() -> bool:
    """``mark_dirty`` under ``torch.compile``

    Where what a Function changes in place comes from outside the compiled code, its backward is left out without a
    word, and the gradient is that of what was there before.
    """
    return _gradient_differs(_TripledInPlace)


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

    What forward puts into the dict of its node is not there in backward.
    """
    return _gradient_differs(_Noted)


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
    x = _ones()
    inside = x.clone()
    result = _compiled(_SquareOfSaved.apply, "eager", inside)
    with torch.no_grad():
        inside.mul_(5)
    try:
        (gradient,) = torch.autograd.grad(result.sum(), x)
    except RuntimeError:
        return False
    return not torch.equal(gradient, 2 * x)


DEPARTURES = (compiled_func_grad, compiled_func_jvp, compiled_in_place, compiled_metadata, compiled_version_check)
