"""Correct Functions that return no gradient on purpose, or not for every tensor."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import given, of_shapes

SPEC = "Function"

inputs = of_shapes((3,))


class Rounded(Function):
    """Marks its only result as non-differentiable."""

    @staticmethod
    def forward(ctx, x):
        rounded = (4 * x).round() + x
        ctx.mark_non_differentiable(rounded)
        return rounded

    @staticmethod
    def backward(ctx, grad):
        return None


class WithMetrics(Function):
    """Returns metrics in a dict next to its result."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square(), {"largest": float(x.max())}

    @staticmethod
    def backward(ctx, grad, _):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Places(Function):
    """Returns integers and booleans in a dict; they change with the input and have no derivative."""

    @staticmethod
    def forward(ctx, x):
        return {"order": x.argsort(), "positive": x > 0}

    @staticmethod
    def backward(ctx, grad):
        return None


class ShapesOfAList(Function):
    """Reads only the shapes of the tensors in a list."""

    inputs = given((torch.rand(3, dtype=torch.float64, requires_grad=True), [torch.rand(2, requires_grad=True)]))

    @staticmethod
    def forward(ctx, x, others):
        ctx.count = sum(other.numel() for other in others)
        return x * ctx.count

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.count, None


class ConstantsInAList(Function):
    """Takes weights in a list that do not require grad."""

    inputs = given(([torch.rand(3), torch.rand(3)], torch.rand(3, dtype=torch.float64, requires_grad=True)))

    @staticmethod
    def forward(ctx, weights, x):
        ctx.save_for_backward(*weights)
        return x * weights[0] * weights[1]

    @staticmethod
    def backward(ctx, grad):
        one, other = ctx.saved_tensors
        return None, grad * one * other
