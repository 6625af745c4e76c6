"""Bugs of backward that do not show at samples whose numbers are alike."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square

SPEC = "Function"


class Exchanged(Function):
    """Returns each factor's gradient for the other one; both samples hold the same numbers.

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
    """Takes the derivative of a square for twice its square, which it is at one.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.ones(3, 2, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * x * grad
