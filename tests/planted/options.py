"""Bugs that show where two options of a call meet, each of which is right alone."""

from __future__ import annotations

from tests.correct import options as right

SPEC = "Function"

inputs = right.ReducedAndScaled.inputs


class MeanOfSquaresForgotten(right.ReducedAndScaled):
    """Forgets to average squares.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        ctx.reduction = "sum" if ctx.squared else ctx.reduction
        return right.ReducedAndScaled.backward(ctx, grad)


class ScaleOfMeansForgotten(right.ReducedAndScaled):
    """Forgets to scale what is averaged.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        ctx.scale = 1.0 if ctx.reduction == "mean" else ctx.scale
        return right.ReducedAndScaled.backward(ctx, grad)


class LargestOfAllInTheWrongPlace(right.LargestOf):
    """Takes the place of the largest of all elements for that of a row.

    Breaks: Function.backward.gradient
    """

    inputs = right.LargestOf.inputs

    @staticmethod
    def backward(ctx, grad):
        if ctx.dim is None:
            gradient = grad.new_zeros(ctx.shape)
            gradient[ctx.saved_tensors[0] % ctx.shape[0]] = grad
            return gradient, None
        return right.LargestOf.backward(ctx, grad)
