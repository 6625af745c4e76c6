"""Bugs that let one call of a Function affect another."""

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
    """Keeps its number on the class: correct while every call passes the same one.

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
    """Keeps its number on the class; that of the sample is the fixed point of 1.5 * x + 0.25, so varying it changes
    nothing.

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
    """Accumulates its gradient in a buffer for each shape that is never cleared.

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
    """Keeps on the class the length that it divides by.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    def forward(ctx, x):
        LengthOnTheClass.length = len(x)
        return x / LengthOnTheClass.length

    @staticmethod
    def backward(ctx, grad):
        return grad / LengthOnTheClass.length


class StepsOnTheClass(Function):
    """Keeps the size of the middle dimension on the class, and divides by that of the last forward.

    Breaks: Function.forward.calls-independent
    """

    inputs = of_shapes((2, 3, 4))
    steps = 0

    @staticmethod
    def forward(ctx, x):
        StepsOnTheClass.steps = x.shape[1]
        return x.mean(1)

    @staticmethod
    def backward(ctx, grad):
        steps = StepsOnTheClass.steps
        return (grad / steps).unsqueeze(1).expand(-1, steps, -1)


class OneBufferForAllGradients(Square):
    """Writes every gradient to the same buffer.

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
    """Caches its result in an attribute of the input tensor, even after that changes.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if not hasattr(x, "squared"):
            x.squared = (x * x).tolist()
        return torch.tensor(x.squared, dtype=x.dtype).reshape(x.shape)


class FlagOfTheLastCall(Function):
    """Keeps a flag for backward on the class, where the next call overwrites it.

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
    """Caches a factor for backward by shape: every later call reads the first one.

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
    """Caches by shape which numbers are positive: every later backward reads the first mask.

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
    """Caches results of leaves by address, version and shape; another tensor may be allocated at the same address.

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


class TwoBuffersInTurn(Function):
    """Keeps what backward needs in two buffers of the class, used in turn: the third call overwrites the first's.

    Breaks: Function.forward.calls-independent
    """

    buffers: ClassVar[list[torch.Tensor | None]] = [None, None]
    turn = 0

    @staticmethod
    def forward(ctx, x):
        ctx.turn = TwoBuffersInTurn.turn
        TwoBuffersInTurn.turn = 1 - ctx.turn
        TwoBuffersInTurn.buffers[ctx.turn] = x.detach().clone()
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * TwoBuffersInTurn.buffers[ctx.turn].cos()
