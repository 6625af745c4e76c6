"""Correct Functions with a kink where two numbers are equal: either one-sided gradient is right, or one between."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 5))


class _Largest(Function):
    """Takes the largest number of each row."""

    @staticmethod
    def forward(ctx, x):
        largest = x.max(-1)
        ctx.save_for_backward(x, *largest)
        return largest.values.clone()


class LargestOfTheFirst(_Largest):
    """Passes the whole gradient to the first of equal maxima."""

    @staticmethod
    def backward(ctx, grad):
        x, _, places = ctx.saved_tensors
        return torch.zeros_like(x).scatter(-1, places.unsqueeze(-1), grad.unsqueeze(-1))


class LargestShared(_Largest):
    """Divides the gradient equally among maxima, as ``amax`` does."""

    @staticmethod
    def backward(ctx, grad):
        x, values, _ = ctx.saved_tensors
        largest = (x == values.unsqueeze(-1)).to(x)
        return grad.unsqueeze(-1) * largest / largest.sum(-1, keepdim=True)


class AllOfTheLargest(Function):
    """Sums all entries that equal the maximum; each gets the whole gradient."""

    @staticmethod
    def forward(ctx, x):
        largest = (x == x.amax(-1, keepdim=True)).to(x)
        ctx.save_for_backward(largest)
        return (x * largest).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (largest,) = ctx.saved_tensors
        return grad.unsqueeze(-1) * largest


class Sorted(Function):
    """Sorts rows, and puts the gradients back in place."""

    @staticmethod
    def forward(ctx, x):
        found = x.sort(-1, descending=True)
        ctx.save_for_backward(found.indices)
        return found.values

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return torch.empty_like(grad).scatter(-1, places, grad)


class SpreadOfEachRow(Function):
    """Subtracts the smallest of each row from the largest; for a constant row the two gradients cancel."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.argmax(-1, keepdim=True), x.argmin(-1, keepdim=True))
        ctx.shape = x.shape
        return x.amax(-1) - x.amin(-1)

    @staticmethod
    def backward(ctx, grad):
        top, bottom = ctx.saved_tensors
        grad = grad.unsqueeze(-1)
        return grad.new_zeros(ctx.shape).scatter_add(-1, top, grad).scatter_add(-1, bottom, -grad)


class DistancesToOneAnother(Function):
    """Returns distances between the entries of each row; a distance of zero has a gradient of zero."""

    @staticmethod
    def forward(ctx, x):
        apart = x.unsqueeze(-1) - x.unsqueeze(-2)
        ctx.save_for_backward(apart.sign())
        return apart.abs()

    @staticmethod
    def backward(ctx, grad):
        (sign,) = ctx.saved_tensors
        moved = grad * sign
        return moved.sum(-1) - moved.sum(-2)
