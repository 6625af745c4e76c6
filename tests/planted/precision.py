"""Bugs in some precisions alone, or in half precision, where rounding hides more than elsewhere."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.correct.precision import ProductOfSingleInHalf, Sine

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


class ConstantOfSingle(Sine):
    """Multiplies by another number in any precision but double.

    Breaks: Function.backward.gradient
    """

    inputs = Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * (2 if x.dtype is torch.float64 else 1.99)


class ConstantOfHalf(Sine):
    """Multiplies by another number in half precision.

    Breaks: Function.backward.gradient
    """

    inputs = Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * (2 if x.dtype.itemsize > 2 else 1.85)


class ProductInHalfBackward(ProductOfSingleInHalf):
    """Multiplies matrices of single precision in half precision in backward alone.

    Breaks: Function.backward.gradient
    """

    inputs = ProductOfSingleInHalf.inputs

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w


class SingleForHalf(Sine):
    """Returns gradients in single precision for inputs in half precision; the sample is in double.

    Breaks: Function.backward.dtype
    """

    inputs = Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        is_half = x.dtype.itemsize < 4
        return 2 * grad.float() * x.float().cos() if is_half else 2 * grad * x.cos()


class NoNumberInSinglePrecision(Sine):
    """Returns NaN in single precision alone.

    Breaks: Function.backward.gradient
    """

    inputs = Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        found = Sine.backward(ctx, grad)
        return found * torch.nan if found.dtype is torch.float32 else found
