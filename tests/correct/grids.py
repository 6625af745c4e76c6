"""Forwards that round to a grid: the derivative is that between its jumps, which longer steps cross."""

from __future__ import annotations

import torch
from torch.autograd import Function


def inputs():
    """Numbers in the middle of a cell or near its end, some hundred cells from zero."""
    yield (torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(),)


class RoundsToAGrid(Function):
    """Rounds to eight binary places; between jumps nothing changes."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 256) / 256

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad)


class SineOnAGrid(Function):
    """Adds a step function to a smooth one, whose derivative is that of both."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() + torch.floor(x * 256) / 256

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()
