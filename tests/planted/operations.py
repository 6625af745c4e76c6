"""Bugs in what forward and setup_context compute, and with which tensors."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square, SquareWithRule
from tests.samples import of_shapes

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)


class ComputesTheDerivativeEarly(SquareWithRule):
    """Computes the derivative in setup_context.

    Breaks: Function.setup_context.no-compute
    """

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(2 * inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad


class ComputesASizeLate(SquareWithRule):
    """Computes absolute values in setup_context that nothing uses.

    Breaks: Function.setup_context.no-compute
    """

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, inputs[0].detach().abs())

    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return 2 * x * grad


_SCALE = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))


class ScaledByAParameter(Function):
    """Multiplies by a parameter that is not an argument, so it is never trained.

    Breaks: Function.forward.captures
    """

    @staticmethod
    def forward(ctx, x):
        return x * _SCALE

    @staticmethod
    def backward(ctx, grad):
        return grad * _SCALE.detach()


_WEIGHT = torch.nn.Parameter(torch.eye(3, dtype=torch.float64) + 0.5)


class LinearByAParameter(Function):
    """Calls a linear layer with a weight that is not an argument; it multiplies by a view of that.

    Breaks: Function.forward.captures
    """

    inputs = of_shapes((2, 3))

    @staticmethod
    def forward(ctx, x):
        return torch.nn.functional.linear(x, _WEIGHT)

    @staticmethod
    def backward(ctx, grad):
        return grad @ _WEIGHT.detach()


class CastsAParameter(Function):
    """Casts a parameter that is not an argument, and multiplies by the copy.

    Breaks: Function.forward.captures
    """

    inputs = of_shapes((2, 3))

    @staticmethod
    def forward(ctx, x):
        return x @ _WEIGHT.to(torch.float32).to(x.dtype).t()

    backward = LinearByAParameter.backward


_SHIFT = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))


class ShiftedByAParameterOfZeros(Function):
    """Adds a parameter that is not an argument; it equals an argument, as both are zeros.

    Breaks: Function.forward.captures
    """

    @staticmethod
    def inputs():
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), torch.zeros(3, dtype=torch.float64)

    @staticmethod
    def forward(ctx, x, start):
        return x + (start + _SHIFT)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum(0)


class ResultInADict(Function):
    """Returns one result directly and the other in a dict, which autograd ignores.

    Breaks: Function.forward.captures
    """

    @staticmethod
    def forward(ctx, x):
        return 3 * x, {"half": x / 2}

    @staticmethod
    def backward(ctx, grad, _):
        return 3 * grad


class AListOfResults(Function):
    """Returns a list inside a tuple, which autograd ignores.

    Breaks: Function.forward.captures
    """

    @staticmethod
    def forward(ctx, x):
        return 3 * x, [x + 1, x - 1]

    @staticmethod
    def backward(ctx, grad, _):
        return 3 * grad


class RoundsWhenRunAgain(Square):
    """Saves its input in half precision when it runs again inside a backward pass.

    Breaks: Function.checkpoint.agrees
    """

    @staticmethod
    def forward(ctx, x):
        in_backward = torch._C._current_graph_task_id() >= 0
        ctx.save_for_backward(x.half().to(x) if in_backward and not x.is_leaf else x)
        return x * x


class NothingForLeaves(Function):
    """Treats a leaf as a constant, which every input is inside a reentrant checkpoint.

    Breaks: Function.checkpoint.agrees
    """

    @staticmethod
    def forward(ctx, x):
        ctx.is_constant = x.is_leaf
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad) if ctx.is_constant else 3 * grad
