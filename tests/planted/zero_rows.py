"""Bugs that show for a row of zeros, whose length is zero."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import zero_rows as right

SPEC = "Function"


class SquashedWithoutCare(right.Squashed):
    """Divides by the length of a row, which is zero for a row of zeros; forward does not.

    Breaks: Function.backward.gradient
    """

    inputs = right.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, length = ctx.saved_tensors
        along = (x * grad).sum(-1, keepdim=True) * x / length
        return grad / (1 + length) - along / (1 + length) ** 2


class AngleWithoutItsSeries(right.Squashed):
    """Takes the slope of a cardinal sine of the length as it is, and forward a special case for small lengths.

    Breaks: Function.backward.gradient
    """

    inputs = right.inputs

    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, length)
        return x * torch.where(length < 1e-6, 1 - length**2 / 6, length.sin() / length)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, length = ctx.saved_tensors
        slope = (length * length.cos() - length.sin()) / length**3
        ratio = torch.where(length < 1e-6, 1 - length**2 / 6, length.sin() / length)
        return grad * ratio + (x * grad).sum(-1, keepdim=True) * x * slope
