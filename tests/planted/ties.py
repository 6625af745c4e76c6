"""Bugs that show if two numbers or sizes are equal that differ in the sample."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 5))


class EachLargestHasTheWhole(Function):
    """Returns the whole gradient for each of two equal maxima.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        largest = x.amax(-1, keepdim=True)
        ctx.save_for_backward(x == largest)
        return largest

    @staticmethod
    def backward(ctx, grad):
        (is_largest,) = ctx.saved_tensors
        return grad * is_largest


class SmallestOfColumnsTwice(Function):
    """Returns the whole gradient for each of two equal minima.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        smallest = x.amin(0)
        ctx.save_for_backward(x == smallest)
        return smallest

    @staticmethod
    def backward(ctx, grad):
        (is_smallest,) = ctx.saved_tensors
        return grad * is_smallest


class TransposeLostInASquare(Function):
    """Recognizes a transposed input by its shape, which fails for a square one.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((4, 3), (3, 5))

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        across = x if x.shape[1] == grad.shape[0] else x.t()
        return grad @ weight.t(), across @ grad


class PaddingOfTheSampleAlone(Function):
    """Assumes a padding of one in the gradient of a convolution's weight.

    Breaks: Function.backward.any-input
    """

    inputs = of_shapes((2, 3, 5, 5), (4, 3, 3, 3), others=(1,))

    @staticmethod
    def forward(ctx, x, weight, padding):
        ctx.save_for_backward(x, weight)
        ctx.padding = padding
        return torch.nn.functional.conv2d(x, weight, padding=padding)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return (
            torch.nn.grad.conv2d_input(x.shape, weight, grad, padding=ctx.padding),
            torch.nn.grad.conv2d_weight(x, weight.shape, grad, padding=1),
            None,
        )
