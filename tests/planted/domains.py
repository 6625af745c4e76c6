"""Planted bugs: wrong gradients of Functions that refuse what lies outside their domain."""

from __future__ import annotations

from torch.autograd.function import once_differentiable

from tests.correct import domains as right

SPEC = "Function"

inputs = right.inputs


class RootWithoutItsHalf(right.Root):
    """The step to a zero is refused on one side, and the gradient of the sample is twice the right one.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (root,) = ctx.saved_tensors
        return grad / root


class PowerWithoutItsFactor(right.Power):
    """One of the sample's numbers is on the edge, where every step leads out to one side.

    Breaks: Function.backward.gradient
    """

    inputs = right.Power.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x**1.2
