"""Correct Functions for which expanded inputs are a limit: ties, singular matrices, writing in place."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square

SPEC = "Function"


def inputs():
    yield (torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(),)


class TieByAddress(Function):
    """Takes the largest of each column. If rows are equal, the layout decides which one gets the gradient: any may."""

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
    """Inverts a matrix; an expanded one is singular."""

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
    """Takes the median; PyTorch 2.13's own median of an expanded tensor, on the CPU, reads uninitialized memory."""

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
    """Writes in place through NumPy, row by row: an expanded input has one row in memory, so it is doubled
    repeatedly.
    """

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
    """Refuses expanded inputs, as a kernel that needs memory for each element."""

    @staticmethod
    def forward(ctx, x):
        if 0 in x.stride():
            raise ValueError("give a contiguous tensor")
        ctx.save_for_backward(x)
        return x.square()


class OneRowForAll(Square):
    """Computes a single row if the input is expanded, and expands the result."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x[:1].square().expand(x.shape) if x.stride(0) == 0 else x.square()
