"""Correct collectives with a jvp: tangents are communicated as values are."""

from __future__ import annotations

from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import collective as right
from tests.correct._collectives import dense, gathered, matrix_and_group, summed

SPEC = "Collective"


inputs = matrix_and_group


class Reduce(right.Reduce):
    """Sums the tangents of a sum."""

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return summed(x, group)

    @staticmethod
    def jvp(ctx, tangent, _):
        return summed(tangent, ctx.group)


class FirstOfAll(Function):
    """Returns the first rank's tensor, which all ranks have; so jvp need not communicate."""

    TYPES = "I -> I"

    @staticmethod
    def forward(ctx, x, group):
        return gathered(x, group)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return dense(grad), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.clone()


class SquareOfEach(Function):
    """Squares on each rank without communicating: not linear."""

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad, None

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent
