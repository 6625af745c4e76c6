"""Bugs that show if one tensor alone lies otherwise, has another dtype, or shares its memory with another one."""

from __future__ import annotations

import torch

from tests.correct import varied_layouts as right
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), (3, 2))


class BothLieAsTheFirst(right.PicksItsKernelByLayout):
    """If the first input lies along columns, it reads the memory of the second as if that did so too.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        if x.t().is_contiguous() and not x.is_contiguous():
            w = w.as_strided(w.shape, (1, w.shape[0]))
        return grad @ w.t(), x.t() @ grad


class WeightsAlongRowsOfColumns(right.PicksItsKernelByLayout):
    """If the second input alone lies along columns, forward takes it for a contiguous one.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        if x.is_contiguous() and w.t().is_contiguous():
            return x @ w.as_strided(w.shape, (w.shape[1], 1))
        return x @ w


class SecondByTheStridesOfTheFirst(right.SineAndSquare):
    """Reads the second incoming gradient by the strides of the first one.

    Breaks: Function.backward.any-layout
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        if first.stride() != second.stride() and first.t().is_contiguous():
            second = second.as_strided(second.shape, first.stride())
        return right.SineAndSquare.backward(ctx, first, second)


class OneGradientForEachAddress(right.SineAndSquare):
    """Keeps what it has found in a dictionary, by the address of the incoming gradient.

    Breaks: Function.backward.any-layout
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        pairs = zip((first, second), right.SineAndSquare.slopes(ctx), strict=True)
        return sum({grad.data_ptr(): grad * slope for grad, slope in pairs}.values())


class OneGradientForEachMemory(right.SineAndSquare):
    """The same by the memory that the gradient is in, in which several may be.

    Breaks: Function.backward.any-layout
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        pairs = zip((first, second), right.SineAndSquare.slopes(ctx), strict=True)
        return sum({grad.untyped_storage().data_ptr(): grad * slope for grad, slope in pairs}.values())


class SlicesTakenInOrder(right.SineAndSquare):
    """Takes two slices of one memory for one tensor, the first of them first.

    Breaks: Function.backward.any-layout
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        places = first.storage_offset(), second.storage_offset()
        one_memory = first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
        if one_memory and abs(places[0] - places[1]) == first.numel() and first.is_contiguous():
            strides = (first.numel(), *first.stride())
            first, second = first.as_strided((2, *first.shape), strides, min(places))
        return right.SineAndSquare.backward(ctx, first, second)


class AddsInPlaceWhatIsOne(right.SineAndSquare):
    """If both outputs are handed the same gradient, it works in place on it, and divides it again.

    Breaks: Function.backward.grads-untouched
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        if first.data_ptr() == second.data_ptr() and not torch.is_grad_enabled():
            return first.mul_(sum(right.SineAndSquare.slopes(ctx))).clone()
        return right.SineAndSquare.backward(ctx, first, second)


class MaskTurnedBitByBit(right.ThroughAMask):
    """Turns the mask over bit by bit, which for bytes leaves 254 and 255.

    Breaks: Function.backward.gradient
    """

    inputs = right.ThroughAMask.inputs

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * ((~mask).to(grad.dtype) == 0), None


class BytesTheOtherWayAround(right.ThroughAMask):
    """Has a branch for masks of bytes, which keeps what they leave out.

    Breaks: Function.backward.gradient
    """

    inputs = right.ThroughAMask.inputs

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        left_out = (mask == 0) if mask.dtype == torch.bool else mask - 1 == 0
        return grad.masked_fill(left_out, 0), None


class MixedWithoutItsSlope(right.MixedPrecisions):
    """The branch for two dtypes forgets one factor of the second gradient.

    Breaks: Function.backward.gradient
    """

    inputs = right.MixedPrecisions.inputs

    @staticmethod
    def backward(ctx, grad):
        of_x, of_w = right.MixedPrecisions.backward(ctx, grad)
        x, w = ctx.saved_tensors
        return of_x, of_w if x.dtype == w.dtype else (grad * x).to(w.dtype)


class MixedByTheFirst(right.MixedPrecisions):
    """Computes both gradients in the dtype of the first input, to whole numbers if that is a small one.

    Breaks: Function.backward.gradient
    """

    inputs = right.MixedPrecisions.inputs

    @staticmethod
    def backward(ctx, grad):
        of_x, of_w = right.MixedPrecisions.backward(ctx, grad)
        x, w = ctx.saved_tensors
        return of_x, of_w if x.dtype == w.dtype or x.dtype == torch.float64 else of_w.round()
