"""Bugs that show with other dtypes, under autocast and torch.func, and with meta or lazily negated tensors."""

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
    """Returns a gradient in double precision, whatever the dtype of the input.

    Breaks: Function.backward.dtype
    """

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad).double()


class LossScaleLeftIn(Square):
    """Scales the gradient up if forward ran under autocast, and forgets to scale it down again.

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
    """Computes its derivative in forward only if the input requires grad, which it never does inside torch.func.

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
    """Returns a result of another shape on the meta device.

    Breaks: Function.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return x.new_empty(x.numel()) if x.is_meta else Square.forward(ctx, x)


class SingleOnMeta(Square):
    """Returns a result in single precision on the meta device.

    Breaks: Function.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return torch.empty(x.shape, device="meta") if x.is_meta else Square.forward(ctx, x)


class OnTheCpuFromMeta(Square):
    """Returns a CPU tensor if its input is on the meta device.

    Breaks: Function.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return torch.zeros(x.shape, dtype=x.dtype) if x.is_meta else Square.forward(ctx, x)


class MixesPrecisionsUnderAutocast(Function):
    """Multiplies what it saved by a gradient of lower precision, which fails under autocast.

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
    """Converts the gradient to single precision in backward, which fails for a saved input in half precision.

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
    """Multiplies by a matrix on the CPU, whatever the device of its input.

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
    """Reads the gradient's memory by its strides, and ignores the negative bit.

    Breaks: Function.backward.any-layout
    """

    @staticmethod
    def backward(ctx, grad):
        raw = torch.empty(0, dtype=grad.dtype)
        raw.set_(grad.untyped_storage(), grad.storage_offset(), grad.shape, grad.stride())
        return Square.backward(ctx, raw)


class AddsUpInBfloat16(modes.AddsUpInBfloat16):
    """Sums gradients row by row in bfloat16, where 256 + 1 is 256.

    Breaks: Function.backward.gradient
    """

    inputs = modes.AddsUpInBfloat16.inputs

    @staticmethod
    def backward(ctx, grad):
        total = torch.zeros_like(grad[:1].sum(0))
        for row in grad:
            total = total + row
        return grad, total
