"""Bugs that show at sizes of which a sample is made another way than by doubling it: one dimension, one more, 300."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import varied_sizes as right

SPEC = "Function"


class RowsCountedInSevenBits(right.LargestOfEachRow):
    """Counts rows in eight bits, one of which is the sign: after 127 they are counted from the end.

    Breaks: Function.backward.gradient
    """

    inputs = right.LargestOfEachRow.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.shape)
        rows = torch.arange(len(grad)).to(torch.int8).long() % max(len(grad), 1)
        gradient[rows, places] = grad
        return gradient


class LargestPowerOfTwo(right.SineInPairs):
    """Goes as far as the largest power of two that fits into a row.

    Breaks: Function.backward.gradient
    """

    inputs = right.SineInPairs.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        size = 1 << (x.shape[-1].bit_length() - 1) if x.shape[-1] else 0
        gradient[..., :size] = grad[..., :size] * x[..., :size].cos()
        return gradient
