"""Correct Functions with eight-bit floats, in which PyTorch stores numbers but does not compute."""

from __future__ import annotations

import torch
from torch.autograd import Function

CODES = torch.float8_e4m3fn


class ScaledAndCoded(Function):
    """Returns numbers and their eight-bit codes; the codes have no derivative."""

    @staticmethod
    def inputs():
        yield (torch.randn(4, 3, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        codes = x.clamp(-2, 2).to(CODES)
        ctx.mark_non_differentiable(codes)
        return x * 2, codes

    @staticmethod
    def backward(ctx, grad, _):
        return grad * 2


class TimesACodedWeight(Function):
    """Multiplies by a weight that is stored in eight bits and not trained."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 3, requires_grad=True), torch.randn(3, 3).to(CODES)

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        return x @ weight.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return grad @ weight.to(grad.dtype).mT, None


class Coded(Function):
    """Returns eight-bit codes only, and passes their gradient straight through."""

    @staticmethod
    def inputs():
        yield (torch.randn(4, 3, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.kind = x.dtype
        return x.to(CODES)

    @staticmethod
    def backward(ctx, grad):
        return grad.to(ctx.kind)
