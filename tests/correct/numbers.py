"""Correct Functions whose gradient is not finite where they have no derivative, or whose numbers overflow."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SPEC = "Function"


def inputs():
    yield (torch.rand(3, 4, dtype=torch.float64).add(0.5).requires_grad_(),)


class Root(Function):
    """Has an infinite slope at zero."""

    @staticmethod
    def forward(ctx, x):
        root = x.sqrt()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (root,) = ctx.saved_tensors
        return grad / (2 * root)


class CubeRoot(Function):
    """Has an infinite slope at zero, on both sides."""

    @staticmethod
    def forward(ctx, x):
        root = x.sign() * x.abs().pow(1 / 3)
        ctx.save_for_backward(root)
        return root

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (root,) = ctx.saved_tensors
        return grad / (3 * root.square())


class Magnitude(Function):
    """Has a kink at zero, where its backward divides zero by zero."""

    @staticmethod
    def forward(ctx, x):
        size = x.abs()
        ctx.save_for_backward(x, size)
        return size

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, size = ctx.saved_tensors
        return grad * x / size


class SumOfMagnitudes(Magnitude):
    """Sums magnitudes: one element among many may be at its kink."""

    @staticmethod
    def forward(ctx, x):
        return Magnitude.forward(ctx, x).sum()


class SteppingAtZero(Function):
    """Jumps at zero, where its value is a convention."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x == 0, torch.zeros_like(x), 1 / x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return -grad / x.square()


class Power(Function):
    """Raises to a power: the exponent has no influence if the base is zero."""

    @staticmethod
    def inputs():
        yield tuple(torch.rand(4, dtype=torch.float64).add(least).requires_grad_() for least in (0.5, 1.5))

    @staticmethod
    def forward(ctx, base, exponent):
        power = base**exponent
        ctx.save_for_backward(base, exponent, power)
        return power

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        base, exponent, power = ctx.saved_tensors
        return grad * exponent * base ** (exponent - 1), torch.where(power == 0, 0, grad * power * base.log())


class Exponential(Function):
    """Overflows if its argument is large."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result


class Saturating(Function):
    """Saturates at one if its argument is large: its gradient underflows to zero there."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1 - (-x.square()).exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x * (-x.square()).exp()


class FixedPoint(Function):
    """Iterates to a fixed point a hundred times; for large weights there is none, and backward diverges."""

    @staticmethod
    def inputs():
        yield (
            torch.randn(2, 3, dtype=torch.float64, requires_grad=True),
            (0.2 * torch.randn(3, 3, dtype=torch.float64)).requires_grad_(),
        )

    @staticmethod
    def forward(ctx, x, weight):
        point = torch.zeros_like(x)
        for _ in range(100):
            point = torch.sin(point @ weight.t() + x)
        ctx.save_for_backward(x, weight, point)
        return point

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight, point = ctx.saved_tensors
        slope = torch.cos(point @ weight.t() + x)
        adjoint = grad
        for _ in range(100):
            adjoint = grad + (adjoint * slope) @ weight
        return adjoint * slope, (adjoint * slope).t() @ point
