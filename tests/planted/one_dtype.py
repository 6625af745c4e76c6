"""Bugs that the sample's dtype hides: ``x.float()`` copies a float64 ``x``, but returns a float32 ``x`` itself."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SPEC = "Function"


def inputs():
    yield (torch.rand(5, dtype=torch.float64).add(0.5).requires_grad_(),)


class _Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class GradientDoubledInPlace(_Doubled):
    """Works in place on the incoming gradient, which ``float()`` copies unless it is float32 already.

    Breaks: Function.backward.grads-untouched
    """

    @staticmethod
    def backward(ctx, grad):
        return grad.float().mul_(2).to(grad.dtype)


class InputDoubledInPlace(_Doubled):
    """Works in place on the input, which ``float()`` copies unless it is float32 already.

    Breaks: Function.mark_dirty.complete
    """

    @staticmethod
    def forward(ctx, x):
        return x.float().detach().mul_(2).to(x.dtype, copy=True)


class GradientReadInMemoryOrder(_Doubled):
    """Reads memory in order, which is contiguous after ``float()`` unless the gradient is float32 already.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        flat = grad.float().detach()
        return flat.as_strided(flat.shape, (1,)).to(grad.dtype) * 2
