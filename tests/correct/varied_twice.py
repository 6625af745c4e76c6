"""Correct Functions that are differentiated twice or in forward mode, or refuse it."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import given, of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class PowerOnDemand(Function):
    """Squares, or cubes if a flag is set; both can be differentiated twice."""

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
    """Refuses a second derivative if its flag is set."""

    inputs = PowerOnDemand.inputs

    @staticmethod
    def backward(ctx, grad):
        if ctx.cubed and torch.is_grad_enabled():
            raise NotImplementedError("no second derivative of the cube")
        return PowerOnDemand.backward(ctx, grad)


class Energy(Function):
    """Multiplies two squares: each input has a second derivative of its own."""

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
    """Squares by way of the absolute value."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() * x.abs()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class SignedSquare(Function):
    """Computes x |x|, which has a second derivative everywhere except at zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.abs()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.abs()


class _SlopeOfAFourthPower(Function):
    """Computes the gradient of a fourth power, with a backward of its own."""

    @staticmethod
    def forward(ctx, x, grad):
        ctx.save_for_backward(x, grad)
        return 4 * x**3 * grad

    @staticmethod
    def backward(ctx, again):
        x, grad = ctx.saved_tensors
        return 12 * x * x * grad * again, 4 * x**3 * again


class FourthPower(Function):
    """Uses another Function for its gradient, which can be differentiated any number of times."""

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
    """Uses another Function for its gradient, which says once_differentiable."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return _SlopeOnce.apply(x, grad)


class SineWithTangent(Function):
    """Multiplies a sine by a number, with a jvp."""

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
    """Refuses tangents that are not contiguous."""

    inputs = SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        if not tangent.is_contiguous():
            raise ValueError("the tangent has to be contiguous")
        return SineWithTangent.jvp(ctx, tangent, _)


class _SlopeOfATanh(Function):
    """Computes the gradient of a hyperbolic tangent, with a backward of differentiable operations."""

    @staticmethod
    def forward(ctx, y, grad):
        ctx.save_for_backward(y, grad)
        return grad * (1 - y * y)

    @staticmethod
    def backward(ctx, again):
        y, grad = ctx.saved_tensors
        return -2 * y * grad * again, (1 - y * y) * again


class TanhOfItsResult(Function):
    """Saves its result, and computes its gradient from that by another Function."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return _SlopeOfATanh.apply(y, grad)


class MagnitudeWithTangent(Function):
    """Chooses another slope at its kink in jvp than in backward."""

    inputs = given((torch.tensor([0.5, 1.25, -2.0], dtype=torch.float64, requires_grad=True),))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sign()

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return torch.where(x < 0, -tangent, tangent)


class SaturatedAttention(Function):
    """Has scores so far apart that weights are one but for rounding, which is all that is left of the gradient."""

    @staticmethod
    def inputs():
        scores = torch.tensor([[0.0, 36.0, -36.0], [36.0, 0.0, 1.0], [-36.0, 36.0, 0.0]], dtype=torch.float64)
        bias = torch.tensor([[0.1, 0.3, -0.2], [0.7, 0.0, 1.0], [0.5, 0.2, 0.0]], dtype=torch.float64)
        values = 100 * torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        yield tuple(one.requires_grad_() for one in (scores, bias, values))

    @staticmethod
    def forward(ctx, scores, bias, values):
        ctx.save_for_backward(scores, bias, values)
        return torch.softmax(scores + bias, -1) @ values

    @staticmethod
    def backward(ctx, grad):
        scores, bias, values = ctx.saved_tensors
        weights = torch.softmax(scores + bias, -1)
        of_weights = grad @ values.mT
        of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
        return of_scores, of_scores, weights.mT @ grad
