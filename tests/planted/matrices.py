"""Bugs of Functions that read one triangle of a symmetric matrix."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SPEC = "Function"


def inputs():
    root = torch.randn(4, 4, dtype=torch.float64)
    yield ((root @ root.mT + 4 * torch.eye(4, dtype=torch.float64)).requires_grad_(),)


class HalfOfASymmetricGradient(Function):
    """Returns only the lower triangle of a symmetric gradient, without doubling it off the diagonal.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, matrix):
        factor = torch.linalg.cholesky(matrix)
        ctx.save_for_backward(factor)
        return 2 * factor.diagonal().log().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (factor,) = ctx.saved_tensors
        return grad * torch.cholesky_inverse(factor).tril()


class ReadsBothTriangles(Function):
    """Symmetrizes the gradient of a matrix that need not be symmetric.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, matrix):
        ctx.size = matrix.shape[-1]
        return matrix @ torch.arange(1.0, ctx.size + 1, dtype=matrix.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        product = grad[:, None] * torch.arange(1.0, ctx.size + 1, dtype=grad.dtype)
        return (product + product.mT) / 2 if len(grad) == ctx.size else product


class TheOtherTriangle(Function):
    """Reads the lower triangle, and returns the gradient for the upper one.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, matrix):
        return matrix.tril() * 2

    @staticmethod
    def backward(ctx, grad):
        lower = grad.tril() * 2
        return lower.mT if lower.shape[-1] == lower.shape[-2] else lower
