"""Correct Functions that look how each tensor lies, which two share memory, or of which dtype one of them is."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), (3, 2))


class PicksItsKernelByLayout(Function):
    """A matmul that reads an input along columns if that lies so, each input by its own strides."""

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
    """Has a kernel for inputs that lie alike, and refuses others."""

    @staticmethod
    def forward(ctx, x, w):
        if x.is_contiguous() != w.is_contiguous():
            raise ValueError("both inputs have to lie alike in memory")
        return PicksItsKernelByLayout.forward(ctx, x, w)


class SineAndSquare(Function):
    """Two outputs of the same form."""

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
    """Stacks both incoming gradients, to go through one kernel."""

    inputs = SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        both = torch.stack([first, second])
        return (both * torch.stack(SineAndSquare.slopes(ctx))).sum(0)


class OneProductForTwoThatAreOne(SineAndSquare):
    """Saves a product if both outputs are handed the very same gradient."""

    inputs = SineAndSquare.inputs

    @staticmethod
    def backward(ctx, first, second):
        if first.data_ptr() == second.data_ptr() and first.stride() == second.stride():
            return first * sum(SineAndSquare.slopes(ctx))
        return SineAndSquare.backward(ctx, first, second)


class ThroughAMask(Function):
    """Keeps what a mask says, whether that is of booleans or of bytes."""

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
    """Takes a mask of booleans, and no other."""

    inputs = ThroughAMask.inputs

    @staticmethod
    def forward(ctx, x, mask):
        if mask.dtype != torch.bool:
            raise ValueError(f"mask has to be of booleans, not {mask.dtype}")
        return ThroughAMask.forward(ctx, x, mask)


class CountsBytes(ThroughAMask):
    """Multiplies by how often each element counts, which a mask of booleans says too."""

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
    """Multiplies one input by a function of the other, each of a dtype of its own."""

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
