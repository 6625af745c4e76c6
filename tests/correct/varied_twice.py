"""Correct Functions that are differentiated again, or in forward mode, or say that they cannot be."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class PowerOnDemand(Function):
    """A square, or a cube if it is told to; both can be differentiated again."""

    inputs = of_shapes((3, 4), others=(False,))

    @staticmethod
    def forward(ctx, x, cubed):
        ctx.save_for_backward(x)
        ctx.cubed = cubed
        return x * x * x if cubed else x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (3 * x * x if ctx.cubed else 2 * x), None


class OnceOnDemand(PowerOnDemand):
    """With the flag on, its backward works on plain numbers and says that there is no second derivative."""

    inputs = PowerOnDemand.inputs

    @staticmethod
    def backward(ctx, grad):
        if ctx.cubed and torch.is_grad_enabled():
            raise NotImplementedError("no second derivative of the cube")
        return PowerOnDemand.backward(ctx, grad)


class Energy(Function):
    """The product of two inputs squared: each has a second derivative of its own."""

    inputs = of_shapes((3, 4), (3, 4))

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * x * w * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return 2 * grad * x * w * w, 2 * grad * x * x * w


class SquareBySign(Function):
    """A square, written with the magnitude and the sign of what is squared."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() * x.abs()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class SignedSquare(Function):
    """x |x|, which has a second derivative everywhere but at zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.abs()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.abs()


class _SlopeOfAFourthPower(Function):
    """The gradient of a fourth power, with a backward of its own."""

    @staticmethod
    def forward(ctx, x, grad):
        ctx.save_for_backward(x, grad)
        return 4 * x**3 * grad

    @staticmethod
    def backward(ctx, again):
        x, grad = ctx.saved_tensors
        return 12 * x * x * grad * again, 4 * x**3 * again


class FourthPower(Function):
    """Its gradient is a Function, which can be differentiated as often as one likes."""

    slope = _SlopeOfAFourthPower

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**4

    @classmethod
    def gradient(cls, x, grad):
        return _SlopeOfAFourthPower.apply(x, grad)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return FourthPower.gradient(x, grad)


class _SlopeOnce(_SlopeOfAFourthPower):
    @staticmethod
    @once_differentiable
    def backward(ctx, again):
        return _SlopeOfAFourthPower.backward(ctx, again)


class FourthPowerTwice(FourthPower):
    """Its gradient is a Function that can be differentiated once, and says so when it is asked for more."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return _SlopeOnce.apply(x, grad)


class SineWithTangent(Function):
    """A sine times a number, with forward mode."""

    inputs = of_shapes((3, 4), others=(1.0,))

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.factor = factor
        return factor * x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.factor * grad * x.cos(), None

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return ctx.factor * tangent * x.cos()


class TangentOfContiguous(SineWithTangent):
    """Its jvp takes contiguous tangents alone, and refuses others."""

    inputs = SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        if not tangent.is_contiguous():
            raise ValueError("the tangent has to be contiguous")
        return SineWithTangent.jvp(ctx, tangent, _)


class _SlopeOfATanh(Function):
    """The gradient of a hyperbolic tangent, with a backward that is made of differentiable operations."""

    @staticmethod
    def forward(ctx, y, grad):
        ctx.save_for_backward(y, grad)
        return grad * (1 - y * y)

    @staticmethod
    def backward(ctx, again):
        y, grad = ctx.saved_tensors
        return -2 * y * grad * again, (1 - y * y) * again


class TanhOfItsResult(Function):
    """Saves its result, and makes its gradient of that by another Function."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return _SlopeOfATanh.apply(y, grad)
