"""Bugs that show only if two things meet, each of which alone is right."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import varied_together as right

SPEC = "Function"


class ManyRowsOfAnExponential(right.SineOrExponential):
    """Leaves out rows beyond the 64th, if the flag is on.

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
    """Reads what it saved as if it were contiguous, if the flag is on.

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
    """Reads what it saved as if it were contiguous, if there are many rows.

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
    """Forgets the factor of the flag if the first output alone is used.

    Breaks: Function.backward.gradient
    """

    inputs = right.GatedProduct.inputs

    @staticmethod
    def backward(ctx, of_product, of_sine):
        if of_sine is None:
            ctx.factor = 1.0
        return right.GatedProduct.backward(ctx, of_product, of_sine)


class TransposedGradientOfTheGateAlone(right.GatedProduct):
    """If the second input alone needs a gradient, it reads the incoming one as if it were contiguous.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    inputs = right.GatedProduct.inputs

    @staticmethod
    def backward(ctx, of_product, of_sine):
        if not ctx.needs_input_grad[0] and of_product is not None and not of_product.is_contiguous():
            of_product = of_product.as_strided(of_product.shape, torch.empty(of_product.shape).stride())
        return right.GatedProduct.backward(ctx, of_product, of_sine)
