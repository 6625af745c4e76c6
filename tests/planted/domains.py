"""Planted bugs: wrong gradients of Functions that refuse inputs outside their domain."""

from __future__ import annotations

from torch.autograd.function import once_differentiable

from tests.correct import domains as right

SPEC = "Function"

inputs = right.inputs


class RootWithoutItsHalf(right.Root):
    """Returns twice the gradient; next to zero, steps to one side are refused.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (root,) = ctx.saved_tensors
        return grad / root


class PowerWithoutItsFactor(right.Power):
    """Forgets a factor of 2.2; at the edge of its domain, steps to one side are refused.

    Breaks: Function.backward.gradient
    """

    inputs = right.Power.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x**1.2
