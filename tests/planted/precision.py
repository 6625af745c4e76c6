"""Bugs of Functions that compute in half precision, where rounding hides more than elsewhere."""

from __future__ import annotations

import torch
from torch.autograd import Function

HALF = torch.bfloat16


class TwiceForStridedGradients(Function):
    """Returns twice the gradient if the incoming one is not contiguous; computes in half precision.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    def inputs():
        yield (torch.rand(4, 6, dtype=torch.float64).add(1).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.to(HALF).square().to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        times = 2 if grad.is_contiguous() else 4
        return (times * x.to(HALF) * grad.to(HALF)).to(x.dtype)
