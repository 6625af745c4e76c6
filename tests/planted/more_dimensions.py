"""Bugs that show if an input has a dimension more than in the sample, and forward counts dimensions from the last."""

from __future__ import annotations

from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import more_dimensions as right
from tests.samples import of_shapes

SPEC = "Function"


class SoftmaxAlongTheSecond(right.Softmax):
    """Adds up along the second dimension, which is the last one of a matrix alone.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 4))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(1, keepdim=True))


class BiasOfOneMatrix(right.Linear):
    """Adds up the rows of the first matrix alone for the bias.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 4), (5, 4), (5,))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.mT @ x, grad[(0,) * (grad.dim() - 2)].sum(0)


class NormAcrossTheRow(Function):
    """Puts the new dimension of a norm second instead of last.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((4, 4))

    @staticmethod
    def forward(ctx, x):
        norm = x.norm(dim=-1)
        ctx.save_for_backward(x, norm)
        return norm

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, norm = ctx.saved_tensors
        return (grad / norm)[:, None] * x
