"""Bugs that show at other sizes than those of the sample: one, odd, or longer than a block of a kernel."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 4, dtype=torch.float64, requires_grad=True),)


class _Sine(Function):
    """Right in every respect."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class FirstBlockAlone(_Sine):
    """Leaves out what lies beyond the first block of a row.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        gradient[..., :1024] = (grad * x.cos())[..., :1024]
        return gradient


class LastOfAnOddRowForgotten(_Sine):
    """Works on pairs of elements, and forgets the last one of a row that is no pair.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        pairs = x.shape[-1] // 2 * 2
        gradient = torch.zeros_like(x)
        gradient[..., :pairs] = (grad * x.cos())[..., :pairs]
        return gradient


class RowsOfOneTakenForBroadcast(_Sine):
    """A single row is taken for a broadcast one, which needs no gradient.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() if x.shape[0] != 1 else torch.zeros_like(x)


class IndexOfTheMaximumOverflows(Function):
    """Keeps the place of the maximum in eight bits.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        values, places = x.max(-1)
        ctx.save_for_backward(places.to(torch.uint8))
        ctx.shape = x.shape
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(-1, places.long()[..., None], grad[..., None])
