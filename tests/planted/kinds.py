"""Bugs that show with other dtypes, under autocast and torch.func, and with tensors of other kinds than plain ones."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import modes
from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(4, requires_grad=True),)


class GradientInDouble(Square):
    """Returns a gradient in double precision whatever came in, and leaves it to autograd to cast it.

    Breaks: Function.backward.dtype
    """

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad).double()


class LossScaleLeftIn(Square):
    """Scales what backward computes up under autocast, and forgets to scale it down again.

    Breaks: Function.autocast.backward
    """

    @staticmethod
    def forward(ctx, x):
        ctx.scale = 1024 if torch.is_autocast_enabled("cpu") else 1
        return Square.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad) * ctx.scale


class DerivativeWhereAskedFor(Function):
    """Computes its derivative in forward if the input requires grad, which inside torch.func it never does.

    Breaks: Function.func.grad
    """

    @staticmethod
    def forward(x):
        return x * x, 2 * x if x.requires_grad else torch.zeros_like(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        return ctx.saved_tensors[0] * grad


class FlatOnMeta(Square):
    """Makes up a result on the meta device, and gives it another shape.

    Breaks: Function.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return x.new_empty(x.numel()) if x.is_meta else Square.forward(ctx, x)


class SingleOnMeta(Square):
    """Makes up a result on the meta device, in single precision.

    Breaks: Function.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return torch.empty(x.shape, device="meta") if x.is_meta else Square.forward(ctx, x)


class OnTheCpuFromMeta(Square):
    """Makes up a result if its input is on the meta device, with real memory.

    Breaks: Function.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return torch.zeros(x.shape, dtype=x.dtype) if x.is_meta else Square.forward(ctx, x)


class MixesPrecisionsUnderAutocast(Function):
    """Saves what it was given, and multiplies it with the gradient of a result in lower precision.

    Breaks: Function.backward.any-precision
    """

    inputs = of_shapes((3, 3), (3, 3))

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


class SinglePrecisionInBackward(Function):
    """Makes a buffer in single precision in backward, whatever it was given in half precision.

    Breaks: Function.backward.any-precision
    """

    inputs = of_shapes((3, 3), (3, 3))

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        wide = torch.promote_types(grad.dtype, torch.float32)
        with torch.autocast("cpu", enabled=False):
            return grad @ w.t().to(grad.dtype), (x.t() @ grad.to(wide)).to(x.dtype)


class MadeOnTheCpuBesideMeta(Function):
    """Multiplies with a matrix that it makes on the CPU, wherever its input is.

    Breaks: Function.forward.meta
    """

    inputs = of_shapes((3, 2))

    @staticmethod
    def forward(ctx, x):
        return torch.eye(len(x), dtype=x.dtype).cumsum(0) @ x

    @staticmethod
    def backward(ctx, grad):
        return torch.eye(len(grad), dtype=grad.dtype).cumsum(0).mT @ grad


class ReadsTheMemoryOfTheGradient(Square):
    """Reads the gradient's memory with its strides, as a kernel does, and ignores the flag that negates it.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    def backward(ctx, grad):
        raw = torch.empty(0, dtype=grad.dtype)
        raw.set_(grad.untyped_storage(), grad.storage_offset(), grad.shape, grad.stride())
        return Square.backward(ctx, raw)


class AddsUpInBfloat16(modes.AddsUpInBfloat16):
    """Adds gradients up row by row in the dtype they come in, where 256 and 1 make 256.

    Breaks: Function.backward.gradient
    """

    inputs = modes.AddsUpInBfloat16.inputs

    @staticmethod
    def backward(ctx, grad):
        total = torch.zeros_like(grad[:1].sum(0))
        for row in grad:
            total = total + row
        return grad, total
