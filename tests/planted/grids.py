"""Bugs beside a forward that rounds to a grid: what short steps show is not what backward claims."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.correct import grids as right

inputs = right.inputs


class TwiceTheSineOnAGrid(right.SineOnAGrid):
    """Doubles the slope between the jumps.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.cos()


class NothingForSinglePrecision(Function):
    """Forgets the gradient where forward rounds to single precision: no jump is as short as these steps.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        return x.float().sin().double()

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad)
