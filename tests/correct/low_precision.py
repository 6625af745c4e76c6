"""Correct kernels that accept only half precision, so that their gradients cannot be judged in a wider dtype."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(7)
    yield tuple(torch.randn(*shape, generator=generator).bfloat16() for shape in ((3, 4), (4, 5)))


def _bfloat16_alone(*tensors):
    if any(tensor.dtype != torch.bfloat16 for tensor in tensors):
        raise TypeError("the kernel takes bfloat16")


class ProductInBfloat16(Function):
    """Multiplies matrices, and accepts only bfloat16."""

    @staticmethod
    def forward(ctx, x, w):
        _bfloat16_alone(x, w)
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.mT, x.mT @ grad


class SoftmaxInBfloat16(Function):
    """Computes softmax, and accepts only bfloat16."""

    @staticmethod
    def inputs():
        yield (torch.randn(3, 5, generator=torch.Generator().manual_seed(7)).bfloat16(),)

    @staticmethod
    def forward(ctx, x):
        _bfloat16_alone(x)
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True))


class GateInBfloat16(ProductInBfloat16):
    """Multiplies by SiLU of the first argument, and accepts only bfloat16."""

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(7)
        yield tuple(torch.randn(3, 5, generator=generator).bfloat16() for _ in range(2))

    @staticmethod
    def forward(ctx, x, w):
        _bfloat16_alone(x, w)
        ctx.save_for_backward(x, w)
        return torch.nn.functional.silu(x) * w

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        slope = x.sigmoid() * (1 + x * (1 - x.sigmoid()))
        return grad * w * slope, grad * torch.nn.functional.silu(x)


class FaintArgument(Function):
    """Adds a hundredth of its second argument, which is about the rounding error of bfloat16."""

    @staticmethod
    def forward(ctx, x, w):
        _bfloat16_alone(x, w)
        return x + 0.01 * w

    @staticmethod
    def backward(ctx, grad):
        return grad, 0.01 * grad

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(0)
        yield tuple(torch.randn(4, 5, generator=generator).bfloat16().requires_grad_() for _ in range(2))


class _ClampedProduct(ProductInBfloat16):
    @staticmethod
    def forward(ctx, x, w):
        _bfloat16_alone(x, w)
        y = x @ w
        ctx.save_for_backward(x, w, y > 0)
        return y.clamp_min(0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w, passes = ctx.saved_tensors
        grad = grad * passes
        return grad @ w.mT, x.mT @ grad


#: Kinks hide its derivative in so few digits: its reference tells it.
ClampedProduct = Subject(_ClampedProduct, inputs=inputs, reference=lambda x, w: (x @ w).clamp_min(0))
