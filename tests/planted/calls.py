"""Bugs by which one call of a Function knows of another."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 2))


class FactorOnTheClass(Function):
    """Keeps its number on the class: right as long as every call has the same.

    Breaks: Function.forward.calls-independent
    """

    inputs = of_shapes((3,), others=(3.0,))

    @staticmethod
    def forward(ctx, x, factor):
        FactorOnTheClass.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * FactorOnTheClass.factor, None


class HalfOnTheClass(Function):
    """Keeps its number on the class, and is called with one that half as much again and a quarter leave as it is.

    Breaks: Function.forward.calls-independent
    """

    inputs = of_shapes((3,), others=(-0.5,))

    @staticmethod
    def forward(ctx, x, factor):
        HalfOnTheClass.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * HalfOnTheClass.factor, None


class AddedUpFromCallToCall(Square):
    """Adds its gradient up in memory that it keeps for each shape, and never clears it.

    Breaks: Function.forward.calls-independent
    """

    sums: ClassVar[dict[Any, torch.Tensor]] = {}

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        found = AddedUpFromCallToCall.sums.setdefault((x.shape, x.dtype), torch.zeros_like(x))
        found += 2 * x * grad
        return found.clone()


class LengthOnTheClass(Function):
    """Keeps the length that it averages over on the class.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    def forward(ctx, x):
        LengthOnTheClass.length = len(x)
        return x / LengthOnTheClass.length

    @staticmethod
    def backward(ctx, grad):
        return grad / LengthOnTheClass.length


class OneBufferForAllGradients(Square):
    """Writes every gradient into the same memory.

    Breaks: Function.forward.calls-independent
    """

    _buffers: dict[Any, torch.Tensor] = {}

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():
            return Square.backward(ctx, grad)
        result = Square.backward(ctx, grad)
        return OneBufferForAllGradients._buffers.setdefault((grad.shape, grad.dtype), result).copy_(result)


class ResultKeptOnTheTensor(Square):
    """Remembers on the tensor itself what it computed of it.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if not hasattr(x, "squared"):
            x.squared = (x * x).tolist()
        return torch.tensor(x.squared, dtype=x.dtype).reshape(x.shape)


class FlagOfTheLastCall(Function):
    """Which way to go back stands on the class, where the next call overwrites it.

    Breaks: Function.forward.calls-independent
    """

    turned = False

    @staticmethod
    def inputs():
        yield torch.linspace(0.3, 1.1, 4, dtype=torch.float64).requires_grad_(), True
        yield torch.linspace(0.7, 1.9, 3, dtype=torch.float64).requires_grad_(), False

    @staticmethod
    def forward(ctx, x, turned):
        FlagOfTheLastCall.turned = turned
        return -x if turned else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return -grad if FlagOfTheLastCall.turned else grad.clone(), None


class FirstOfItsShape(Function):
    """Keeps a factor for backward on the class, by its shape: the first one is read forever.

    Breaks: Function.forward.calls-independent
    """

    kept: dict[Any, torch.Tensor] = {}

    @staticmethod
    def inputs():
        yield torch.linspace(0.3, 1.1, 4, dtype=torch.float64).requires_grad_(), torch.tensor(0.8).requires_grad_()

    @staticmethod
    def forward(ctx, x, factor):
        FirstOfItsShape.kept.setdefault(factor.shape, factor.detach().clone())
        ctx.save_for_backward(x, factor)
        return x * factor

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, factor = ctx.saved_tensors
        kept = FirstOfItsShape.kept[factor.shape]
        return grad * kept.to(grad), (grad * x).sum().to(factor)


class FirstMask(Function):
    """Works out once which numbers are positive, and goes back through those forever.

    Breaks: Function.forward.calls-independent
    """

    kept: dict[Any, torch.Tensor] = {}

    @staticmethod
    def inputs():
        yield (
            torch.tensor([0.4, -0.7, 1.2, -0.3], dtype=torch.float64, requires_grad=True),
            torch.ones(()).requires_grad_(),
        )

    @staticmethod
    def forward(ctx, x, scale):
        ctx.shape = x.shape
        FirstMask.kept.setdefault(x.shape, x.detach() > 0)
        ctx.save_for_backward(x, scale)
        return x.relu() * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * FirstMask.kept[ctx.shape] * scale, (grad * x.relu()).sum().to(scale)


class SquaresOfWeightsKeptByAddress(Square):
    """Keeps the squares of a leaf, such as a weight, by address, version and shape; others may come to lie there.

    Breaks: Function.forward.calls-independent
    """

    kept: ClassVar[dict[Any, list[float]]] = {}

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if not (x.is_leaf and x.requires_grad):
            return x * x
        numbers = SquaresOfWeightsKeptByAddress.kept.setdefault((x.data_ptr(), x._version, x.shape), (x * x).tolist())
        return torch.tensor(numbers, dtype=x.dtype).reshape(x.shape)
