"""Bugs in the gradient at zero: it is finite, but not the derivative."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.planted import numbers
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class ValueForTheDerivative(numbers.GuardedInForwardAlone):
    """Returns one instead of zero as the slope of a cardinal sine at zero, copying forward's special case.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = (x * x.cos() - x.sin()) / x.square()
        return grad * torch.where(x == 0, torch.ones_like(x), slope)


class GuardedWithZero(numbers.ProductDividedByItsFactors):
    """Returns zero as the gradient of a product with respect to a zero factor.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, product = ctx.saved_tensors
        return torch.where(x == 0, torch.zeros_like(x), (grad * product).unsqueeze(-1) / x)


class GuardedWithASmallNumber(Function):
    """Divides a product by a factor plus 1e-12, which is finite at zero and wrong.

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
    """Returns no gradient for a gate of zero, so it never opens.

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
    """Adds 1e-8 to the argument of a logarithm in forward only; backward divides by zero.

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
