"""Bugs of backward that the samples given do not show, but the same samples laid out or shaped otherwise."""

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
    """Strides of the saved tensors are taken to be those of contiguous ones.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = (saved.as_strided(saved.shape, (saved.shape[1], 1)) for saved in ctx.saved_tensors)
        return grad @ w.t(), x.t() @ grad


class OffsetForgotten(Function):
    """Reads the saved tensor from the beginning of its memory.

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
    """Flattens the saved tensors by view, which raises if their memory does not allow it.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = (saved.view(-1).view(saved.shape) for saved in ctx.saved_tensors)
        return grad @ w.t(), x.t() @ grad


class ForwardReadsMemory(MatMul):
    """Right for contiguous inputs: forward takes the elements as they lie.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.as_strided(x.shape, (x.shape[1], 1)) @ w


class GradientInTheStridesOfTheInput(Function):
    """Writes the gradient into memory laid out as the input's, where the rows of an expanded input are one.

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
    """Takes an expanded input for one that it has expanded itself, and adds up the gradients of its rows.

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
    """Forward computes the one row that an expanded input has in memory, and forgets that it is to be there often.

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
    """Copies the gradient into memory laid out as the input's, which PyTorch refuses for an expanded one.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        gradient = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
        return gradient.copy_(grad @ w.t()), x.t() @ grad


class ForwardTakesImagesForPlanes(Function):
    """Sums over the planes of an image, which it finds by strides that images with the channels last do not have.

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
    """The length of a vector comes from its bytes, read as double precision whatever they are.

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
    """A scale that suits double precision is lost in half: all small numbers are zero there.

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
    """A kernel of its own for bfloat16 takes the mean over one row fewer: half too much for three rows.

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
    """The gradient of the weights is a mean over rows, times their number: not-a-number if there are none.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        rows = torch.tensor(float(x.shape[0]), dtype=x.dtype)
        return grad @ w.t(), x.t() @ grad / rows * rows


class RaisesForNoRows(MatMul):
    """backward asks for a row that may not be there.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        assert grad[0].shape == w[0].shape
        return grad @ w.t(), x.t() @ grad
