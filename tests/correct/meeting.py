"""Correct Functions of the difference of two inputs: where they meet, some have a kink, and some no finite slope."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4), (3, 4))


class _OfTheDifference(Function):
    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        slope = ctx.slope(x - y) * grad
        return slope, -slope


class SquaredDifference(_OfTheDifference):
    """Is smooth where the inputs meet."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.slope = lambda apart: 2 * apart
        return (x - y).square()


class AbsoluteDifference(_OfTheDifference):
    """Has a kink where the inputs meet; PyTorch's slope there is zero."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.slope = torch.sign
        return (x - y).abs()


class RootOfTheDifference(_OfTheDifference):
    """Has no finite slope where the inputs meet."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.slope = lambda apart: apart.sign() / (2 * apart.abs().sqrt())
        return (x - y).abs().sqrt()


class CubesOfDifferences(Function):
    """Adds up the cubes of the differences of all pairs of elements, which is smooth where two of them are equal."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _apart(x).pow(3).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slopes = 3 * _apart(x).square() * grad[:, :, None]
        return slopes.sum(2) - slopes.sum(1)


def _apart(x):
    return (x[:, :, None] - x[:, None, :]).triu()
