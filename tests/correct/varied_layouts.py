"""Correct Functions that depend on strides, shared memory or dtypes of single arguments."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), (3, 2))


class PicksItsKernelByLayout(Function):
    """Chooses a kernel for each input by its own strides."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def rows(value):
        return value if value.is_contiguous() else value.t().contiguous().t()

    @staticmethod
    def backward(ctx, grad):
        x, w = map(PicksItsKernelByLayout.rows, ctx.saved_tensors)
        return grad @ w.t(), x.t() @ grad


class RefusesTwoLayouts(PicksItsKernelByLayout):
    """Refuses inputs with different layouts."""

    @staticmethod
    def forward(ctx, x, w):
        if x.is_contiguous() != w.is_contiguous():
            raise ValueError("both inputs have to lie alike in memory")
        return PicksItsKernelByLayout.forward(ctx, x, w)


class SineAndSquare(Function):
    """Returns two outputs of the same shape."""

    inputs = of_shapes((4, 3))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), x * x

    @staticmethod
    def slopes(ctx):
        (x,) = ctx.saved_tensors
        return x.cos(), 2 * x

    @staticmethod
    def backward(ctx, first, second):
        of_first, of_second = SineAndSquare.slopes(ctx)
        return first * of_first + second * of_second


class JoinsItsGradients(SineAndSquare):
    """Stacks both incoming gradients, to process them at once."""

    inputs = SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        both = torch.stack([first, second])
        return (both * torch.stack(SineAndSquare.slopes(ctx))).sum(0)


class OneProductForTwoThatAreOne(SineAndSquare):
    """Saves a multiplication if both incoming gradients are the same tensor."""

    inputs = SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        if first.data_ptr() == second.data_ptr() and first.stride() == second.stride():
            return first * sum(SineAndSquare.slopes(ctx))
        return SineAndSquare.backward(ctx, first, second)


class ThroughAMask(Function):
    """Multiplies by a mask of booleans or bytes."""

    @staticmethod
    def inputs():
        mask = torch.tensor([[True, False, True], [False, True, True]])
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), mask

    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


class BooleansAlone(ThroughAMask):
    """Accepts only masks of booleans."""

    inputs = ThroughAMask.inputs

    @staticmethod
    def forward(ctx, x, mask):
        if mask.dtype != torch.bool:
            raise ValueError(f"mask has to be of booleans, not {mask.dtype}")
        return ThroughAMask.forward(ctx, x, mask)


class CountsBytes(ThroughAMask):
    """Multiplies by counts, which a mask of booleans is too."""

    inputs = ThroughAMask.inputs

    @staticmethod
    def forward(ctx, x, count):
        ctx.save_for_backward(x, count)
        return x**2 * count

    @staticmethod
    def backward(ctx, grad):
        x, count = ctx.saved_tensors
        return 2 * x * grad * count, None


class MixedPrecisions(Function):
    """Multiplies inputs that may have different dtypes."""

    inputs = of_shapes((3, 4), (3, 4))

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w.tanh()

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        bent = w.tanh()
        return (grad * bent).to(x.dtype), (grad * x * (1 - bent * bent)).to(w.dtype)


class OnePrecisionAlone(MixedPrecisions):
    """Refuses inputs of two dtypes."""

    inputs = MixedPrecisions.inputs

    @staticmethod
    def forward(ctx, x, w):
        if x.dtype != w.dtype:
            raise TypeError(f"x is of {x.dtype}, and w of {w.dtype}")
        return MixedPrecisions.forward(ctx, x, w)
