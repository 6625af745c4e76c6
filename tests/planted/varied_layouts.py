"""Bugs that show if a single tensor has another layout or dtype, or shares memory with another."""

from __future__ import annotations

import torch

from tests.correct import varied_layouts as right
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), (3, 2))


class BothLieAsTheFirst(right.PicksItsKernelByLayout):
    """Reads the second input with column-major strides if the first has them.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        if x.t().is_contiguous() and not x.is_contiguous():
            w = w.as_strided(w.shape, (1, w.shape[0]))
        return grad @ w.t(), x.t() @ grad


class WeightsAlongRowsOfColumns(right.PicksItsKernelByLayout):
    """Reads the second input as contiguous if it alone is column-major.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        if x.is_contiguous() and w.t().is_contiguous():
            return x @ w.as_strided(w.shape, (w.shape[1], 1))
        return x @ w


class SecondByTheStridesOfTheFirst(right.SineAndSquare):
    """Reads the second incoming gradient by the strides of the first.

    Breaks: Function.backward.any-layout
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        if first.stride() != second.stride() and first.t().is_contiguous():
            second = second.as_strided(second.shape, first.stride())
        return right.SineAndSquare.backward(ctx, first, second)


class OneGradientForEachAddress(right.SineAndSquare):
    """Stores results in a dict by the address of the incoming gradients: equal addresses overwrite each other.

    Breaks: Function.backward.any-layout
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        pairs = zip((first, second), right.SineAndSquare.slopes(ctx), strict=True)
        return sum({grad.data_ptr(): grad * slope for grad, slope in pairs}.values())


class OneGradientForEachMemory(right.SineAndSquare):
    """Stores results in a dict by the storage of the incoming gradients, which several may share.

    Breaks: Function.backward.any-layout
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        pairs = zip((first, second), right.SineAndSquare.slopes(ctx), strict=True)
        return sum({grad.untyped_storage().data_ptr(): grad * slope for grad, slope in pairs}.values())


class SlicesTakenInOrder(right.SineAndSquare):
    """Swaps two incoming gradients that lie next to each other in the wrong order.

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
    """Works in place on the incoming gradient if both outputs receive the same one.

    Breaks: Function.backward.grads-untouched
    """

    inputs = right.SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        if first.data_ptr() == second.data_ptr() and not torch.is_grad_enabled():
            return first.mul_(sum(right.SineAndSquare.slopes(ctx))).clone()
        return right.SineAndSquare.backward(ctx, first, second)


class MaskTurnedBitByBit(right.ThroughAMask):
    """Inverts the mask bitwise, which for bytes yields 254 and 255.

    Breaks: Function.backward.gradient
    """

    inputs = right.ThroughAMask.inputs

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * ((~mask).to(grad.dtype) == 0), None


class BytesTheOtherWayAround(right.ThroughAMask):
    """Inverts masks of bytes.

    Breaks: Function.backward.gradient
    """

    inputs = right.ThroughAMask.inputs

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        left_out = (mask == 0) if mask.dtype == torch.bool else mask - 1 == 0
        return grad.masked_fill(left_out, 0), None


class MixedWithoutItsSlope(right.MixedPrecisions):
    """Forgets a factor of the second gradient if the dtypes differ.

    Breaks: Function.backward.gradient
    """

    inputs = right.MixedPrecisions.inputs

    @staticmethod
    def backward(ctx, grad):
        of_x, of_w = right.MixedPrecisions.backward(ctx, grad)
        x, w = ctx.saved_tensors
        return of_x, of_w if x.dtype == w.dtype else (grad * x).to(w.dtype)


class MixedByTheFirst(right.MixedPrecisions):
    """Rounds the second gradient to integers if the dtypes differ and the first is not double precision.

    Breaks: Function.backward.gradient
    """

    inputs = right.MixedPrecisions.inputs

    @staticmethod
    def backward(ctx, grad):
        of_x, of_w = right.MixedPrecisions.backward(ctx, grad)
        x, w = ctx.saved_tensors
        return of_x, of_w if x.dtype == w.dtype or x.dtype == torch.float64 else of_w.round()
