"""Bugs that show where two inputs, or two elements of one, hold the same number."""

from __future__ import annotations

from torch.autograd.function import once_differentiable

from tests.correct import meeting as right

SPEC = "Function"

inputs = right.inputs


class SquareDividedByTheDifference(right.SquaredDifference):
    """Divides zero by zero where the inputs meet.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        slope = 2 * grad * (x - y).square() / (x - y)
        return slope, -slope


class CubesDividedByDifferences(right.CubesOfDifferences):
    """Divides zero by zero where two elements are equal.

    Breaks: Function.backward.gradient
    """

    inputs = right.CubesOfDifferences.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        apart = (x[:, :, None] - x[:, None, :]).triu()
        divisor = apart + apart.new_ones(apart.shape[1:]).tril()
        slopes = 3 * apart.pow(3) / divisor * grad[:, :, None]
        return slopes.sum(2) - slopes.sum(1)
