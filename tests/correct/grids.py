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


class RoundsToAFineGrid(Function):
    """Rounds many numbers to four places: the shortest step that shows a slope takes some of them over a jump."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x, decimals=4)

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad)

    @staticmethod
    def inputs():
        yield (torch.randn(20, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(),)


class FloorOfMany(Function):
    """Rounds many numbers down: any step that is long enough to be precise takes some of them over a jump."""

    @staticmethod
    def forward(ctx, x):
        return x.floor()

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad)

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(1)
        yield ((10 * torch.randn(20, 20, dtype=torch.float64, generator=generator)).requires_grad_(),)
