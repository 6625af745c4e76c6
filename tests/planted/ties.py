"""Bugs that show where two numbers, or two sizes, are equal that are not in the sample."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 5))


class EachLargestHasTheWhole(Function):
    """Where a row has its largest number twice, each of the two gets the whole gradient.

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
    """The smallest number of each column, with the same mistake.

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
    """Transposes by the shape, which says nothing of a square.

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
    """The gradient of the weight of a convolution is computed with the padding that is usual.

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
