"""Bugs that show at values with a meaning, at another sign, with infinite constants, and for very small losses."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import varied_values as right

SPEC = "Function"


class NeighbourWithoutItsShare(right.FilledFromItsNeighbour):
    """Forgets the gradient of a number that replaces its neighbour.

    Breaks: Function.backward.gradient
    """

    inputs = right.FilledFromItsNeighbour.inputs

    @staticmethod
    def backward(ctx, grad):
        (empty,) = ctx.saved_tensors
        return torch.where(empty, 0, grad)


class RootWithoutItsMagnitude(right.SignedSquareRoot):
    """Takes the root of the input instead of its magnitude, and replaces NaN by zero.

    Breaks: Function.backward.gradient
    """

    inputs = right.SignedSquareRoot.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad / (2 * x.sqrt())).nan_to_num()


class MagnitudeWithoutItsSign(right.Magnitudes):
    """Forgets the sign of the input in the gradient of a magnitude.

    Breaks: Function.backward.gradient
    """

    inputs = right.Magnitudes.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * grad * x * x


class ZeroTimesInfinity(right.LogSumWithBias):
    """Multiplies zero by infinity, if the bias is minus infinity somewhere.

    Breaks: Function.backward.large-numbers
    """

    inputs = right.LogSumWithBias.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        inner, scale, share = ctx.saved_tensors
        of_inner = grad[..., None] * share
        return scale * of_inner, None, (of_inner * inner).sum()


class UnknownTimesZero(right.LossOfWhatIsKnown):
    """Multiplies NaN by zero, which is NaN.

    Breaks: Function.backward.large-numbers
    """

    inputs = right.LossOfWhatIsKnown.inputs

    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return torch.where(target.isnan(), 0, x - target).square().sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, target = ctx.saved_tensors
        return 2 * grad[..., None] * (x - target) * ~target.isnan(), None


class SmallGradientsDropped(right.Sine):
    """Treats gradients below 1e-7 as zero.

    Breaks: Function.backward.gradient
    """

    inputs = right.Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        return right.Sine.backward(ctx, torch.where(grad.abs() < 1e-7, 0, grad))


class SmallGradientsThroughHalf(right.Sine):
    """Converts gradients below 1e-6 to half precision, where they vanish.

    Breaks: Function.backward.gradient
    """

    inputs = right.Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        if grad.numel() and not torch.is_grad_enabled() and 0 < float(grad.abs().max()) < 1e-6:
            grad = grad.half().to(grad.dtype)
        return right.Sine.backward(ctx, grad)


class LargeGradientsClipped(right.Sine):
    """Clips gradients at 1e7.

    Breaks: Function.backward.gradient
    """

    inputs = right.Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        return right.Sine.backward(ctx, grad).clamp(-1e7, 1e7)


class NormalizedBySmallestNorm(right.Sine):
    """Divides the incoming gradient by its norm plus a small number, but multiplies by its norm only.

    Breaks: Function.backward.gradient
    """

    inputs = right.Sine.inputs

    @staticmethod
    def backward(ctx, grad):
        size = grad.detach().abs().sum()
        return right.Sine.backward(ctx, grad / (size + 1e-13)) * size
