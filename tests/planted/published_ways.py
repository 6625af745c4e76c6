"""Bugs in the style of published Functions."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


def inputs():
    yield (torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_(),)


class FreesItsInput(Function):
    """Frees the memory of its input, without mark_dirty.

    Breaks: Function.mark_dirty.complete
    """

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        x.untyped_storage().resize_(0)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
