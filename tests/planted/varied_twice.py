"""Bugs of second and third derivatives and of tangents that show away from the sample: another flag, size or layout."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.correct import varied_twice as right
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class CubeWithoutItsSecond(right.PowerOnDemand):
    """Detaches what it saved, in the branch of the other flag alone.

    Breaks: Function.backward.double
    """

    inputs = right.PowerOnDemand.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (3 * x.detach().square() if ctx.cubed else 2 * x), None


class DetachedWhereLong(Function):
    """Saves memory where there is much of it, by leaving the graph of the gradient out.

    Breaks: Function.backward.double
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.exp() if x.numel() <= 64 else x.detach().exp())


class NoSecondOfOneAlone(right.Energy):
    """Takes what needs no gradient for nothing to differentiate, and detaches the other input for it.

    Breaks: Function.backward.double
    """

    inputs = right.Energy.inputs

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            x = x.detach()
        return 2 * grad * x * w * w, 2 * grad * x * x * w


class NoSecondOfTheOtherAlone(right.Energy):
    """The same with the second input, whose gradient alone is made by a product that was kept.

    Breaks: Function.backward.double
    """

    inputs = right.Energy.inputs

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            return right.Energy.backward(ctx, grad)
        return None, 2 * grad * (x * x * w).detach()


class NoSecondAtZero(right.SquareBySign):
    """Writes the gradient as magnitude times sign: at zero the second derivative of that is zero, and not two.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.abs() * x.sign()


class _SlopeWithoutItsSlope(right.FourthPower.slope):
    """The gradient of a fourth power, the gradient of which is made of plain numbers."""

    @staticmethod
    def backward(ctx, again):
        x, grad = ctx.saved_tensors
        return 12 * x.detach().square() * grad * again, 4 * x**3 * again


class ThirdDerivativeLost(right.FourthPower):
    """Its gradient is a Function, whose own gradient is right and can be differentiated no further, in silence.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return _SlopeWithoutItsSlope.apply(x, grad)


class TangentOfTheFirstBlock(right.SineWithTangent):
    """jvp leaves out what lies beyond the first block of rows.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        result = torch.zeros_like(tangent)
        result[:64] = right.SineWithTangent.jvp(ctx, tangent, _)[:64]
        return result


class TangentReadAsContiguous(right.SineWithTangent):
    """jvp takes the strides of a tangent to be those of a contiguous one.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        contiguous = torch.empty(tangent.shape).stride()
        return right.SineWithTangent.jvp(ctx, tangent.as_strided(tangent.shape, contiguous), _)


class TangentAtSavedAsContiguous(right.SineWithTangent):
    """jvp takes the strides of what was saved to be those of a contiguous tensor.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return ctx.factor * tangent * x.as_strided(x.shape, torch.empty(x.shape).stride()).cos()


class TangentWithoutItsFactor(right.SineWithTangent):
    """jvp forgets a factor, which is one in the sample.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return tangent * x.cos()


class _SlopeByNumbers(Function):
    """The gradient of a hyperbolic tangent; its own gradient takes what was saved for plain numbers."""

    @staticmethod
    def forward(ctx, y, grad):
        ctx.save_for_backward(y, grad)
        return grad * (1 - y * y)

    @staticmethod
    def backward(ctx, again):
        y, grad = ctx.saved_tensors
        return -2 * y.detach() * grad * again, (1 - y * y) * again


class ThirdDerivativeOfATanh(right.TanhOfItsResult):
    """Detaches what makes up the third derivative, and keeps the second one.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return _SlopeByNumbers.apply(y, grad)
