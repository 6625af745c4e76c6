"""A Function that is correct; bugs of backward are made of it by changing one thing."""

from __future__ import annotations

from torch.autograd import Function


class MatMul(Function):
    """Multiplies two matrices, of shapes (n, k) and (k, m); correct."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad
