"""Bugs that show only if two variations are combined."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import varied_together as right

SPEC = "Function"


class ManyRowsOfAnExponential(right.SineOrExponential):
    """Returns no gradient beyond 64 rows, if a flag is on.

    Breaks: Function.backward.gradient
    """

    inputs = right.SineOrExponential.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        gradient, _ = right.SineOrExponential.backward(ctx, grad)
        if ctx.exponential:
            gradient[64:] = 0
        return gradient, None


class TransposedExponential(right.SineOrExponential):
    """Reads the saved input as if it were contiguous, if a flag is on.

    Breaks: Function.backward.gradient
    """

    inputs = right.SineOrExponential.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if ctx.exponential:
            return grad * x.as_strided(x.shape, torch.empty(x.shape).stride()).exp(), None
        return right.SineOrExponential.backward(ctx, grad)


class ManyTransposedRows(right.SineOrExponential):
    """Reads the saved input as if it were contiguous, if there are many rows.

    Breaks: Function.backward.gradient
    """

    inputs = right.SineOrExponential.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if len(x) > 64 and not ctx.exponential:
            return grad * x.as_strided(x.shape, torch.empty(x.shape).stride()).cos(), None
        return right.SineOrExponential.backward(ctx, grad)


class ProductAloneWithoutItsFactor(right.GatedProduct):
    """Forgets a factor if a flag is on and only the first output is used.

    Breaks: Function.backward.gradient
    """

    inputs = right.GatedProduct.inputs

    @staticmethod
    def backward(ctx, of_product, of_sine):
        if of_sine is None:
            ctx.factor = 1.0
        return right.GatedProduct.backward(ctx, of_product, of_sine)


class TransposedGradientOfTheGateAlone(right.GatedProduct):
    """Reads the incoming gradient as if it were contiguous, if only the second input needs one.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    inputs = right.GatedProduct.inputs

    @staticmethod
    def backward(ctx, of_product, of_sine):
        if not ctx.needs_input_grad[0] and of_product is not None and not of_product.is_contiguous():
            of_product = of_product.as_strided(of_product.shape, torch.empty(of_product.shape).stride())
        return right.GatedProduct.backward(ctx, of_product, of_sine)
