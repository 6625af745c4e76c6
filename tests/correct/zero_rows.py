"""Correct Functions of the length of each row, which is zero for a row of zeros."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3))


class Squashed(Function):
    """Divides each row by one more than its length: smooth, also for a row of zeros."""

    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, length)
        return x / (1 + length)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, length = ctx.saved_tensors
        along = (x * grad).sum(-1, keepdim=True) * x / length.clamp_min(1e-300)
        return grad / (1 + length) - along / (1 + length) ** 2


class Lengths(Function):
    """Takes the length of each row, whose gradient is NaN for a row of zeros: there is no derivative."""

    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1)
        ctx.save_for_backward(x, length)
        return length

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, length = ctx.saved_tensors
        return (grad / length).unsqueeze(-1) * x


class Directions(Function):
    """Divides each row by its length, but at least by a tiny number."""

    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        y = x / length
        ctx.save_for_backward(y, length)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        y, length = ctx.saved_tensors
        return (grad - y * (y * grad).sum(-1, keepdim=True)) / length


class Projector(Function):
    """Projects onto what the rows of a matrix span, by their QR decomposition: one row of zeros changes all of it."""

    inputs = of_shapes((2, 4))

    @staticmethod
    def forward(ctx, x):
        if x.dim() > 2 or len(x) > x.shape[1]:
            raise ValueError("rows have to be longer than there are many")
        q, r = torch.linalg.qr(x.mT)
        ctx.save_for_backward(q, r)
        return q @ q.mT

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, r = ctx.saved_tensors
        both = grad + grad.mT
        free = both @ q - q @ (q.mT @ both @ q)
        return torch.linalg.solve_triangular(r, free.mT, upper=True)
