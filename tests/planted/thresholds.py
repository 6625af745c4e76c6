"""Bugs that show with another number where that of the sample is not small, or is the bound that everybody has."""

from __future__ import annotations

from torch.autograd.function import once_differentiable

from tests.correct import thresholds as right

SPEC = "Function"


class FifthPowerOnly(right.RaisedTo):
    """Assumes the power of the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.RaisedTo.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 5 * x**4, None


class FourTimesOnly(right.RepeatedColumns):
    """Adds up four columns each, as the sample has them.

    Breaks: Function.backward.gradient
    """

    inputs = right.RepeatedColumns.inputs

    @staticmethod
    def backward(ctx, grad):
        return grad.unflatten(-1, (-1 if grad.shape[-1] else 0, 4)).sum(-1), None


class BoundOfZero(right.BoundedBelow):
    """Compares with zero, which is the bound of the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.BoundedBelow.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > 0), None
