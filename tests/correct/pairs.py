"""Correct Functions that work on halves of a row, or on pairs in it: rows must have an even length."""

from __future__ import annotations

import math

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"


inputs = of_shapes((3, 4), others=(0.3,))


class RotatesHalves(Function):
    """Rotates one half of a row against the other, as rotary embeddings do."""

    @staticmethod
    def forward(ctx, x, angle):
        ctx.angle = angle
        return _rotated(x, angle)

    @staticmethod
    def backward(ctx, grad):
        return _rotated(grad, -ctx.angle), None


def _rotated(x, angle):
    one, other = x.chunk(2, -1)
    return x * math.cos(angle) + torch.cat([-other, one], -1) * math.sin(angle)
