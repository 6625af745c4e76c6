"""Bugs of backward that show only for certain incoming gradients: large ones, or zeros for one output."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SPEC = "Function"


def inputs():
    yield (torch.rand(4, dtype=torch.float64, requires_grad=True),)


class ClampsTheGradient(Function):
    """Clamps incoming gradients at 100, which a scaled loss exceeds.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad.clamp(-100, 100)


class ZerosEndBackward(Function):
    """Returns zeros if the gradient of the first output is zero, whatever that of the second.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_sin, grad_cos):
        (x,) = ctx.saved_tensors
        if not grad_sin.any():
            return torch.zeros_like(x)
        return grad_sin * x.cos() - grad_cos * x.sin()
