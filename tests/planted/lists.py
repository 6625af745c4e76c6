"""Bugs that show when the tensors of a list are not equally long."""

from __future__ import annotations

from tests.correct import lists as right

SPEC = "Function"


class EqualParts(right.Concatenated):
    """Cuts the gradient into equal parts.

    Breaks: Function.backward.gradient
    """

    inputs = right.Concatenated.inputs

    @staticmethod
    def backward(ctx, grad):
        return grad.chunk(len(ctx.lengths)) if len(grad) else tuple(grad.clone() for _ in ctx.lengths)
