"""Bugs that read uninitialized memory, which is zero as long as it comes fresh from the system."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"
#: So many numbers are handed out anew each time, by a system that clears memory for reasons of its own.
FRESH = 2**23

inputs = of_shapes((4, 3))


def _unwritten(x):
    """Return uninitialized memory in the shape of a tensor, at the beginning of a large workspace."""
    return torch.empty(FRESH, dtype=x.dtype)[: x.numel()].view(x.shape)


class GradientAddedToUnwrittenMemory(Function):
    """Adds the gradient, row by row, to uninitialized memory.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = _unwritten(grad)
        for row, value in enumerate(2 * x * grad):
            gradient[row] += value
        return gradient


class RowsLeftUnwritten(Function):
    """Leaves the last row of its result uninitialized.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        result = _unwritten(x)
        result[:-1] = x[:-1].square()
        return result

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad * (torch.arange(x.shape[0]) < x.shape[0] - 1).unsqueeze(1)


class GradientAddedToResizedMemory(GradientAddedToUnwrittenMemory):
    """Adds the gradient to memory that ``resize_`` left uninitialized.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = grad.new().resize_(FRESH)[: grad.numel()].view(grad.shape)
        gradient += 2 * x * grad
        return gradient
