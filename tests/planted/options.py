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
