"""Bugs that show at sizes that doubling a sample does not reach: one dimension changed, or 300 rows."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import varied_sizes as right

SPEC = "Function"


class ColumnsTakenForRows(right.MeanOfRows):
    """Divides by the number of columns instead of rows; the sample is square.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeanOfRows.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad / ctx.shape[1]


class RowsOfAColumn(right.MeanOfAColumn):
    """Divides the sum over all elements by the number of rows; the sample has one column.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeanOfAColumn.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad / len(x)


class FirstEightOfTheMiddle(right.MeanOfTheMiddle):
    """Returns no gradient beyond the first eight entries of the middle dimension.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeanOfTheMiddle.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        gradient[:, :8] = (grad / x.shape[1]).unsqueeze(1) * x[:, :8].cos()
        return gradient


class MiddleOfFive(right.MeanOfTheMiddle):
    """Divides by five, the size of the middle dimension in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeanOfTheMiddle.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad / 5).unsqueeze(1) * x.cos()


class RowsCountedInSevenBits(right.LargestOfEachRow):
    """Counts rows in a signed byte, which overflows after 127.

    Breaks: Function.backward.gradient
    """

    inputs = right.LargestOfEachRow.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.shape)
        rows = torch.arange(len(grad)).to(torch.int8).long() % max(len(grad), 1)
        gradient[rows, places] = grad
        return gradient


class RowsCountedInAByte(right.LargestOfEachRow):
    """Counts rows in a byte, which overflows after 255.

    Breaks: Function.backward.gradient
    """

    inputs = right.LargestOfEachRow.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.shape)
        gradient[torch.arange(len(grad)).to(torch.uint8).long(), places] = grad
        return gradient


class FirstRowsOfAScatter(right.ScattersRows):
    """Returns no gradient beyond the first 64 rows of a scatter; samples with an index are not made longer.

    Breaks: Function.backward.gradient
    """

    inputs = right.ScattersRows.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, index = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        gradient[:64] = grad[index[:64]] * x[:64].cos()
        return gradient, None


class LastBlockOfRows(right.InBlocks):
    """Works on blocks of 1024 rows, and forgets the last one unless it is full or the only one.

    Breaks: Function.backward.gradient
    """

    inputs = right.InBlocks.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if len(x) <= 1024:
            return 2 * grad * x
        gradient = torch.zeros_like(x)
        whole = len(x) // 1024 * 1024
        gradient[:whole] = 2 * grad[:whole] * x[:whole]
        return gradient


class LargestPowerOfTwo(right.SineInPairs):
    """Returns no gradient beyond the largest power of two that fits into a row.

    Breaks: Function.backward.gradient
    """

    inputs = right.SineInPairs.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        size = 1 << (x.shape[-1].bit_length() - 1) if x.shape[-1] else 0
        gradient[..., :size] = grad[..., :size] * x[..., :size].cos()
        return gradient


class PaddingSetToZero(right.SineInPairs):
    """Sets the end of a row to zero that it padded to whole blocks of eight; without padding that is the whole row.

    Breaks: Function.backward.gradient
    """

    inputs = right.SineInPairs.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        size = x.shape[-1]
        padding = -size % 8
        gradient = torch.nn.functional.pad(grad * x.cos(), (0, padding))
        gradient[..., -padding:] = 0
        return gradient[..., :size]


class ChannelsInAnotherOrder(right.ShufflesChannels):
    """Puts the channels behind their parts, which four channels do not show; six are refused.

    Breaks: Function.backward.gradient
    """

    inputs = right.ShufflesChannels.inputs

    @staticmethod
    def backward(ctx, grad):
        size, channels, rows, columns = grad.shape
        parts = grad.reshape(size, channels, rows // 2, 2, columns // 2, 2).permute(0, 3, 5, 1, 2, 4)
        return parts.reshape(size, 4 * channels, rows // 2, columns // 2)
