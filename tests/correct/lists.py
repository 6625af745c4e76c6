"""Correct Functions of any number of tensors, which need not be equally long."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"


class Concatenated(Function):
    """Puts tensors one below the other."""

    inputs = of_shapes((3, 2), (3, 2))

    @staticmethod
    def forward(ctx, *parts):
        ctx.lengths = [len(part) for part in parts]
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        return grad.split(ctx.lengths)


class ConcatenatedIfEqual(Concatenated):
    """Takes parts of the same shape only."""

    inputs = Concatenated.inputs

    @staticmethod
    def forward(ctx, *parts):
        if len({part.shape for part in parts}) > 1:
            raise ValueError("all parts have the same shape")
        return Concatenated.forward(ctx, *parts)

    @staticmethod
    def backward(ctx, grad):
        return grad.chunk(len(ctx.lengths)) if len(grad) else tuple(grad.clone() for _ in ctx.lengths)
