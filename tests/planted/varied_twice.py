"""Bugs of higher derivatives and of tangents that show only with another flag, size or layout."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.correct import varied_twice as right
from tests.samples import given, of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class CubeWithoutItsSecond(right.PowerOnDemand):
    """Detaches the saved input, in the branch of the other flag.

    Breaks: Function.backward.double
    """

    inputs = right.PowerOnDemand.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (3 * x.detach().square() if ctx.cubed else 2 * x), None


class DetachedWhereLong(Function):
    """Detaches a long saved input, to save memory.

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
    """Detaches the first input if the second needs no gradient, so second derivatives are lost.

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
    """Detaches the gradient if only the second input needs one, so second derivatives are lost.

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
    """Computes the gradient as magnitude times sign: its derivative at zero is zero instead of two.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.abs() * x.sign()


class _SlopeWithoutItsSlope(right.FourthPower.slope):
    """Computes the gradient of a fourth power; detaches the saved input in its own backward."""

    @staticmethod
    def backward(ctx, again):
        x, grad = ctx.saved_tensors
        return 12 * x.detach().square() * grad * again, 4 * x**3 * again


class ThirdDerivativeLost(right.FourthPower):
    """Detaches part of the second derivative, so the third is silently wrong.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return _SlopeWithoutItsSlope.apply(x, grad)


class TangentOfTheFirstBlock(right.SineWithTangent):
    """Returns no tangent beyond the first 64 rows.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        result = torch.zeros_like(tangent)
        result[:64] = right.SineWithTangent.jvp(ctx, tangent, _)[:64]
        return result


class TangentReadAsContiguous(right.SineWithTangent):
    """Reads the tangent as if it were contiguous, ignoring its strides.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        contiguous = torch.empty(tangent.shape).stride()
        return right.SineWithTangent.jvp(ctx, tangent.as_strided(tangent.shape, contiguous), _)


class TangentAtSavedAsContiguous(right.SineWithTangent):
    """Reads the saved input as if it were contiguous in jvp, ignoring its strides.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return ctx.factor * tangent * x.as_strided(x.shape, torch.empty(x.shape).stride()).cos()


class TangentWithoutItsFactor(right.SineWithTangent):
    """Forgets a factor in jvp, which is one in the sample.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return tangent * x.cos()


class _SlopeByNumbers(Function):
    """Computes the gradient of a hyperbolic tangent; detaches the saved output in its own backward."""

    @staticmethod
    def forward(ctx, y, grad):
        ctx.save_for_backward(y, grad)
        return grad * (1 - y * y)

    @staticmethod
    def backward(ctx, again):
        y, grad = ctx.saved_tensors
        return -2 * y.detach() * grad * again, (1 - y * y) * again


class ThirdDerivativeOfATanh(right.TanhOfItsResult):
    """Detaches part of the second derivative, so the third is silently wrong.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return _SlopeByNumbers.apply(y, grad)


class TangentOfAMagnitude(Function):
    """Takes every number for a positive one in jvp, as all are in the sample.

    Breaks: Function.jvp.tangent
    """

    inputs = given((torch.tensor([0.5, 1.25, 2.0], dtype=torch.float64, requires_grad=True),))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x.abs() * tangent


class NoTangentOfOneRow(right.SineWithTangent):
    """Takes one row for a number, and returns no tangent of it.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        found = right.SineWithTangent.jvp(ctx, tangent, _)
        return torch.zeros_like(found) if tangent.shape[0] == 1 else found


class NoTangentWithoutGradMode(right.SineWithTangent):
    """Returns no tangent under no_grad, which is about gradients alone.

    Breaks: Function.jvp.tangent
    """

    inputs = right.SineWithTangent.inputs

    @staticmethod
    def jvp(ctx, tangent, _):
        found = right.SineWithTangent.jvp(ctx, tangent, _)
        return found if torch.is_grad_enabled() else torch.zeros_like(found)
