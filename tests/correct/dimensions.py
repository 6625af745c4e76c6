"""Correct Functions one of whose dimensions has a meaning, or whose dimensions are all alike."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


class Modulus(Function):
    """The last dimension is the real and the imaginary part; whoever passes more is not told."""

    @staticmethod
    def inputs():
        yield (torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        modulus = (x[..., 0].square() + x[..., 1].square()).sqrt()
        ctx.save_for_backward(x, modulus)
        return modulus

    @staticmethod
    def backward(ctx, grad):
        x, modulus = ctx.saved_tensors
        return (grad / modulus).unsqueeze(-1) * x


class Areas(Function):
    """The last dimension is left, top, right and bottom of a box."""

    @staticmethod
    def inputs():
        yield (torch.rand(5, 4, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, boxes):
        ctx.save_for_backward(boxes)
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

    @staticmethod
    def backward(ctx, grad):
        (boxes,) = ctx.saved_tensors
        width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        sides = torch.stack([-height, -width, height, width])
        return (grad * sides).t()


class RealPartOfQuaternions(Function):
    """The real part of the squares of quaternions, four numbers each."""

    @staticmethod
    def inputs():
        yield (torch.randn(3, 4, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, q):
        ctx.save_for_backward(q)
        return q[:, 0].square() - q[:, 1:4].square().sum(1)

    @staticmethod
    def backward(ctx, grad):
        (q,) = ctx.saved_tensors
        return 2 * grad.unsqueeze(1) * torch.cat([q[:, :1], -q[:, 1:]], 1)


class AlikeDimensions(Function):
    """Five dimensions of two: made longer along all of them, they fill a machine."""

    @staticmethod
    def inputs():
        yield (torch.randn(2, 2, 2, 2, 2, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()
