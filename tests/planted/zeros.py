"""Bugs in the gradient at a zero: a finite number, and not the derivative."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.planted import numbers
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class ValueForTheDerivative(numbers.GuardedInForwardAlone):
    """The cardinal sine is one at zero, where its derivative is zero; both are given the same guard.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = (x * x.cos() - x.sin()) / x.square()
        return grad * torch.where(x == 0, torch.ones_like(x), slope)


class GuardedWithZero(numbers.ProductDividedByItsFactors):
    """The product of rows: if a factor is zero, its gradient is zero instead of the product of the others.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, product = ctx.saved_tensors
        return torch.where(x == 0, torch.zeros_like(x), (grad * product).unsqueeze(-1) / x)


class GuardedWithASmallNumber(Function):
    """Divides what forward gave by the argument; a small number keeps that finite, and far from right.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        value = x * x.exp()
        return grad * (value + value / (x + 1e-12))


class SkipsAnEmptyGate(Function):
    """A gate of zero spares the work of backward, and never opens.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (
            torch.randn(3, 4, dtype=torch.float64, requires_grad=True),
            torch.tensor(0.5, dtype=torch.float64, requires_grad=True),
        )

    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x, gate)
        return x + gate * x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, gate = ctx.saved_tensors
        if gate == 0:
            return grad, torch.zeros_like(gate)
        return grad * (1 + gate * x.cos()), (grad * x.sin()).sum()


class SmallNumberForgotten(Function):
    """The logarithm adds a small number so that a zero has one; backward divides by the zero itself.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(5)
        yield ((torch.rand(5, dtype=torch.float64, generator=generator) + 0.1).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x + 1e-8).log()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x
