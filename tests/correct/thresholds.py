"""Correct Functions of a number that is not small: a bound, a power, the rows that are taken together."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


class RaisedTo(Function):
    """Raises to a power."""

    inputs = of_shapes((3, 4), others=(5,))

    @staticmethod
    def forward(ctx, x, power):
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.power * x ** (ctx.power - 1), None


class RepeatedColumns(Function):
    """Repeats each column as often as it is told."""

    inputs = of_shapes((3, 2), others=(4,))

    @staticmethod
    def forward(ctx, x, times):
        ctx.times = times
        return x.repeat_interleave(times, -1)

    @staticmethod
    def backward(ctx, grad):
        return grad.unflatten(-1, (-1 if grad.shape[-1] else 0, ctx.times)).sum(-1), None


class BoundedBelow(Function):
    """Sets what is smaller than a bound to the bound."""

    inputs = of_shapes((6, 3), others=(0.0,))

    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(min=bound)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > ctx.bound), None


class BoundedBelowAndDrawnBack(BoundedBelow):
    """Also hands on a gradient that moves towards the bound what is beyond it, as learned compression does.

    All numbers of the sample are larger than the bound, where the gradient is the derivative.
    """

    @staticmethod
    def inputs():
        yield (torch.rand(6, 3, dtype=torch.float64) + 0.1).requires_grad_(), 0.0

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ((x > ctx.bound) | (grad < 0)), None


class PrunedStraightThrough(Function):
    """Drops small weights, and hands their gradients on; by default it drops none."""

    inputs = of_shapes((6, 3), others=(0.0,))

    @staticmethod
    def forward(ctx, weight, bound):
        return weight * (weight.abs() > bound)

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


class LabelOrBlank(Function):
    """Adds up the scores of a label and of the blank, which is no label: their gradients are written side by side."""

    @staticmethod
    def inputs():
        yield torch.randn(2, 4, dtype=torch.float64, requires_grad=True), torch.tensor([3, 1]), 0

    @staticmethod
    def forward(ctx, scores, labels, blank):
        ctx.save_for_backward(labels)
        ctx.shape, ctx.blank = scores.shape, blank
        return scores.gather(1, labels[:, None])[:, 0] + 2 * scores[:, blank]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (labels,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.shape)
        gradient[:, ctx.blank] = 2 * grad
        return gradient.scatter_(1, labels[:, None], grad[:, None]), None, None
