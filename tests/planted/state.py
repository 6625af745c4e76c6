"""Bugs that bypass the version check of saved tensors, or modify the caller's tensors."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)


class SavesDotData(Square):
    """Saves ``x.data``, which bypasses the version check.

    Breaks: Function.save_for_backward.protects
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.data)
        return x * x


class SavesTheOutputsData(Function):
    """Saves its output's ``data``, which bypasses the version check.

    Breaks: Function.save_for_backward.protects
    """

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result.data)
        return result

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class SavesThroughNumpy(Square):
    """Saves its input by way of NumPy, which bypasses the version check.

    Breaks: Function.save_for_backward.protects
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.from_numpy(x.detach().numpy()))
        return x * x


class ScalesItsInputInBackward(Square):
    """Doubles the saved input in place in backward.

    Breaks: Function.forward.inputs-untouched
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            return x.mul_(2) * grad


class ZeroesAListItem(Square):
    """Writes to a tensor inside a list among its arguments.

    Breaks: Function.forward.inputs-untouched
    """

    @staticmethod
    def inputs():
        yield (torch.randn(3, dtype=torch.float64, requires_grad=True), [torch.zeros(3, dtype=torch.float64)])

    @staticmethod
    def forward(ctx, x, running):
        running[0] += x.detach().abs()
        return Square.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad), None


class TurnsRequiresGradOn(Square):
    """Makes its input require grad, so that later operations are recorded.

    Breaks: Function.forward.flags-untouched
    """

    @staticmethod
    def forward(ctx, x):
        x.requires_grad_()
        return Square.forward(ctx, x)


class LeavesANoteOnTheTensor(Square):
    """Sets an attribute on the caller's tensor.

    Breaks: Function.forward.flags-untouched
    """

    @staticmethod
    def forward(ctx, x):
        x.was_squared = True
        return Square.forward(ctx, x)


class InnerBackwardIntoTheCaller(Square):
    """Runs an inner backward pass on the saved tensor itself, which also fills its ``grad``.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x * x
        if x.is_leaf:
            torch.autograd.backward(y, grad, inputs=[x])
            return x.grad
        return torch.autograd.grad(y, x, grad)[0]


class AddsToTheCallersGradient(Square):
    """Adds the current ``grad`` of its input to what it returns, so autograd counts it twice.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = Square.backward(ctx, grad)
        return gradient if not x.is_leaf or x.grad is None else gradient + x.grad


class ForgetsTheCallersGradient(Square):
    """Sets the ``grad`` of its input to None, which drops what earlier passes accumulated.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if x.is_leaf:
            x.grad = None
        return Square.backward(ctx, grad)


class MakesTheCallersTensorContiguous(Square):
    """Makes the caller's tensor itself contiguous, by its ``data``.

    Breaks: Function.forward.flags-untouched
    """

    @staticmethod
    def forward(ctx, x):
        x.data = x.data.contiguous()
        return Square.forward(ctx, x)


class MovesTheCallersTensor(Square):
    """Replaces the caller's data by a copy: views no longer share it.

    Breaks: Function.forward.flags-untouched
    """

    @staticmethod
    def forward(ctx, x):
        x.data = x.data.clone()
        return Square.forward(ctx, x)
