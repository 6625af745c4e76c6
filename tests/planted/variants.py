"""Bugs of backward that show only if the samples have another layout, shape or dtype."""

from __future__ import annotations

import numpy
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.planted._matmul import MatMul
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), (3, 2))


class SavedReadAsContiguous(MatMul):
    """Reads saved tensors as if they were contiguous, ignoring their strides.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = (saved.as_strided(saved.shape, (saved.shape[1], 1)) for saved in ctx.saved_tensors)
        return grad @ w.t(), x.t() @ grad


class OffsetForgotten(Function):
    """Reads the saved tensor from the beginning of its storage, ignoring its offset.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.rand(5, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.as_strided(x.shape, x.stride(), 0)


class ViewOfTheSaved(MatMul):
    """Flattens saved tensors by view, which fails for some strides.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = (saved.view(-1).view(saved.shape) for saved in ctx.saved_tensors)
        return grad @ w.t(), x.t() @ grad


class ForwardReadsMemory(MatMul):
    """Reads its input as if it were contiguous, ignoring its strides.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.as_strided(x.shape, (x.shape[1], 1)) @ w


class GradientInTheStridesOfTheInput(Function):
    """Writes the gradient with the strides of the input: if that is expanded, all rows share memory.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.rand(3, 4, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        numpy.multiply(grad.numpy(), 2 * x.numpy(), out=gradient.numpy())
        return gradient


class SumOverABroadcast(MatMul):
    """Treats an expanded input as one that it has expanded itself, and sums the gradients of its rows.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        gradient = grad @ w.t()
        if 0 in x.stride():
            gradient = gradient.sum(0, keepdim=True).expand(x.shape)
        return gradient, x.t() @ grad


class ExpandedReadAsOneRow(MatMul):
    """Computes only the first row of an expanded input.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        result = x @ w
        if x.stride(0) == 0:
            result[1:] = 0
        return result


class CopiesIntoExpandedMemory(MatMul):
    """Copies the gradient into memory with the strides of the input, which PyTorch refuses if that is expanded.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        gradient = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
        return gradient.copy_(grad @ w.t()), x.t() @ grad


class ForwardTakesImagesForPlanes(Function):
    """Reads channels-last images as if they were contiguous.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.rand(2, 3, 4, 5, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        if x.is_contiguous(memory_format=torch.channels_last):
            x = x.as_strided(x.shape, torch.empty(x.shape).stride())
        return x.sum((2, 3))

    @staticmethod
    def backward(ctx, grad):
        return grad[:, :, None, None].expand(ctx.shape)


class BytesReadAsDouble(Function):
    """Reads the bytes of its input as double precision, whatever its dtype.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.rand(8, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.norm()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        length = x.contiguous().view(torch.float64).norm()
        return torch.nan_to_num(grad * x / (length + 1e-30))


class ScaleLostInHalf(Function):
    """Multiplies by 1e-9 and back, which is zero in half precision.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.rand(6, dtype=torch.float64).add_(0.5).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad * 1e-9) * x * 2e9


class OneRowFewerInBfloat16(Function):
    """Divides by one row less in bfloat16 than in other dtypes.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        x, w = (torch.rand(shape, dtype=torch.float64) + 1 for shape in ((3, 3), (3, 2)))
        yield x.requires_grad_(), w.requires_grad_()

    @staticmethod
    def forward(ctx, x, w):
        ctx.rows = x.shape[0]
        ctx.save_for_backward(x, w)
        return (x @ w).mean(0)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        each = grad.expand(ctx.rows, -1) / (ctx.rows - (x.dtype == torch.bfloat16) or 1)
        return each @ w.t(), x.t() @ each


class DividesByTheNumberOfRows(MatMul):
    """Divides by the number of rows and multiplies again: NaN if there are none.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        rows = torch.tensor(float(x.shape[0]), dtype=x.dtype)
        return grad @ w.t(), x.t() @ grad / rows * rows


class RaisesForNoRows(MatMul):
    """Reads the first row in backward, and fails if there is none.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        assert grad[0].shape == w[0].shape
        return grad @ w.t(), x.t() @ grad
