"""Wrong gradients of kernels that accept only half precision, which long steps used to hide."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import low_precision as right

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(7)
    yield tuple(torch.randn(*shape, generator=generator).bfloat16() for shape in ((8, 16), (16, 8)))


class ProductDoubledInBfloat16(Function):
    """Multiplies matrices, in bfloat16 only, and returns twice the gradient for the first.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, w):
        if x.dtype != torch.bfloat16:
            raise TypeError("the kernel takes bfloat16")
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return 2 * (grad @ w.mT), x.mT @ grad


class ProductAFewPercentOff(ProductDoubledInBfloat16):
    """Multiplies matrices, in bfloat16 only, and returns a gradient for the first that is three percent too large.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return 1.03 * (grad @ w.mT), x.mT @ grad


class SlopeOfTanhInDouble(Function):
    """Rounds a constant in the gradient to five digits, an error of 1e-5 that gradcheck accepts.

    Breaks: Function.backward.exact
    """

    @staticmethod
    def inputs():
        yield (torch.linspace(-1, 1, 7, dtype=torch.float64).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(0.7978845608028654 * x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * 0.79788 * (1 - y * y)


class SoftmaxWithoutItsSum(right.SoftmaxInBfloat16):
    """Computes softmax, in bfloat16 only, and leaves the sum over each row out of the gradient.

    Breaks: Function.backward.gradient
    """

    inputs = right.SoftmaxInBfloat16.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * grad


class GateWithoutItsSlope(right.GateInBfloat16):
    """Multiplies by SiLU of the first argument, in bfloat16 only, and differentiates as if its sigmoid were constant.

    Breaks: Function.backward.gradient
    """

    inputs = right.GateInBfloat16.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w * x.sigmoid(), grad * torch.nn.functional.silu(x)
