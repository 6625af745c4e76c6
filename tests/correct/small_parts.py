"""Correct Functions in which one gradient is far smaller than another one."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"

#: By how much the auxiliary loss counts, and how much smaller one output is than the other.
SMALL = 1e-6


class AuxiliaryLoss(Function):
    """Adds a small loss of other numbers to the main one."""

    inputs = of_shapes((4, 6), (8, 3))

    @staticmethod
    def forward(ctx, x, r):
        ctx.save_for_backward(x, r)
        return x.square().mean() + SMALL * r.pow(4).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, r = ctx.saved_tensors
        return grad * 2 * x / x.numel(), grad * SMALL * 4 * r.pow(3) / r.numel()


class OutputsOfTwoSizes(Function):
    """Returns a large output and a small one."""

    inputs = of_shapes((4, 6), (4, 6))

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return SMALL * x.sin(), y.cos()

    @staticmethod
    def backward(ctx, small, large):
        x, y = ctx.saved_tensors
        return SMALL * small * x.cos(), -large * y.sin()


class ResidueBesideAResult(Function):
    """Returns how far an iteration is from its end too; nobody differentiates that."""

    inputs = of_shapes((4, 6))

    @staticmethod
    def forward(ctx, x):
        root, target = torch.ones_like(x), x.square() + 1
        for _ in range(20):
            root = (root + target / root) / 2
        residue = (root.square() - target).abs().amax()
        ctx.save_for_backward(x, root)
        ctx.mark_non_differentiable(residue)
        return root, residue

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        x, root = ctx.saved_tensors
        return grad * x / root
