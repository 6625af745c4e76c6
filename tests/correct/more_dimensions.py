"""Correct Functions whose forward may accept a dimension more than the sample has."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


class Softmax(Function):
    """Normalizes the last dimension, wherever it is."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True))


class Linear(Function):
    """Maps the last dimension of x; all other dimensions are counted as rows."""

    inputs = of_shapes((3, 4), (5, 4), (5,))

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.mT + bias

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.mT @ x, grad.flatten(0, -2).sum(0)  # autograd adds up the batch of a weight


class RowsBesideTheirMean(Function):
    """Takes the mean over the first dimension: one more would be another mean."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        return x - x.mean(0)

    @staticmethod
    def backward(ctx, grad):
        return grad - grad.mean(0)


class SoftmaxOfRows(Softmax):
    """Accepts a matrix alone, and says so."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        if x.dim() != 2:
            raise ValueError("x is a matrix")
        return Softmax.forward(ctx, x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(1, keepdim=True))


class DistancesOfRows(Function):
    """Refuses a dimension more in backward: its product of matrices does not fit."""

    inputs = of_shapes((3, 4), (4,))

    @staticmethod
    def forward(ctx, x, center):
        ctx.save_for_backward(x - center)
        return (x - center).square().sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (apart,) = ctx.saved_tensors
        return 2 * torch.mm(grad.diag_embed(), apart), -2 * torch.mv(apart.mT, grad)
