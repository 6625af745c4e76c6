"""Bugs of classes that are defined anew in each call of a plain callable."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 2))


def saves_twice(x):
    """Calls save_for_backward twice.

    Breaks: Function.save_for_backward.once
    """

    class SavesTwice(Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value)
            ctx.save_for_backward(value)
            return value * value

        @staticmethod
        def backward(ctx, grad):
            (value,) = ctx.saved_tensors
            return 2 * grad * value

    return SavesTwice.apply(x)


def keeps_a_tensor(x):
    """Keeps a tensor on ctx.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    class KeepsATensor(Function):
        @staticmethod
        def forward(ctx, value):
            ctx.weight = torch.full_like(value, 2.0)
            return value * ctx.weight

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.weight

    return KeepsATensor.apply(x)
