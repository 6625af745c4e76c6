"""Bugs that show at values that have a meaning, at another sign, at infinite constants, and at very small losses."""

from __future__ import annotations

from tests.correct import varied_values as right

SPEC = "Function"


class RootWithoutItsMagnitude(right.SignedSquareRoot):
    """Takes the root of what may be negative, and a zero for what is no number.

    Breaks: Function.backward.gradient
    """

    inputs = right.SignedSquareRoot.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad / (2 * x.sqrt())).nan_to_num()
