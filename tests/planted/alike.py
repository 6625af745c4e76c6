"""Bugs of backward that do not show if the numbers of a sample are equal."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square

SPEC = "Function"


class Exchanged(Function):
    """Swaps the gradients of two factors, which are equal in both samples.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield tuple(torch.linspace(0.5, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * x, grad * y


class WrongPowerOfOne(Square):
    """Returns 2x² as the derivative of x², which is the same at one, the sample.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.ones(3, 2, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * x * grad
