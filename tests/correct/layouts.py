"""Correct Functions that an expanded input brings to their limits: ties, singular matrices, writing in place."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square

SPEC = "Function"


def inputs():
    yield (torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(),)


class TieByAddress(Function):
    """The largest of each column. If rows are alike the layout decides which has the gradient: any of them may."""

    @staticmethod
    def forward(ctx, x):
        order = torch.arange(len(x)) if x.is_contiguous() else torch.arange(len(x)).flip(0)
        place = order[x[order].argmax(0)]
        ctx.save_for_backward(place)
        ctx.shape = x.shape
        return x.gather(0, place[None])[0]

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(0, place[None], grad[None])


class Inverse(Function):
    """No matrix with equal rows has one."""

    @staticmethod
    def inputs():
        yield ((torch.eye(3, dtype=torch.float64) * 3 + 0.1).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        inverse = torch.linalg.inv(x)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return -inverse.mH @ grad @ inverse.mH


class MedianOfEachColumn(Function):
    """PyTorch 2.13's own median of an expanded tensor, on the CPU, is memory that nobody wrote."""

    @staticmethod
    def forward(ctx, x):
        values, place = x.median(0)
        ctx.save_for_backward(place)
        ctx.shape = x.shape
        return values

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(0, place[None], grad[None])


class DoublesRowByRow(Function):
    """Writes in place by other means than PyTorch's, which would refuse: the rows of an expanded input are one."""

    @staticmethod
    def forward(ctx, x):
        for row in x.detach().numpy():
            row *= 2
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class RefusesExpanded(Square):
    """A kernel that needs memory for each element, and says so."""

    @staticmethod
    def forward(ctx, x):
        if 0 in x.stride():
            raise ValueError("give a contiguous tensor")
        ctx.save_for_backward(x)
        return x.square()


class OneRowForAll(Square):
    """A kernel of its own for expanded inputs, which computes the one row and expands the result."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x[:1].square().expand(x.shape) if x.stride(0) == 0 else x.square()
