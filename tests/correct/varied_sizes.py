"""Correct Functions of any size, and some that refuse certain sizes or give a size a meaning."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"

_DOUBLE = torch.float64


class MeanOfRows(Function):
    """Averages over the rows of a matrix; the sample is square."""

    inputs = of_shapes((4, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.shape = x.shape
        return x.square().mean(0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad / ctx.shape[0]


class MeanOfAColumn(Function):
    """Averages over all elements; the sample has one column."""

    inputs = of_shapes((5, 1))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().mean()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad / x.numel()


class FirstColumn(Function):
    """Returns a sine of the first column; the sample has no other."""

    inputs = of_shapes((5, 1))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x[:, 0].sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad[:, None] * x[:, :1].cos()


class ScalesRows(Function):
    """Multiplies each row by a number of its own, as many rows as columns."""

    inputs = of_shapes((3, 1), (3, 3))

    @staticmethod
    def forward(ctx, scale, x):
        ctx.save_for_backward(scale, x)
        return scale * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        scale, x = ctx.saved_tensors
        return (grad * x).sum(-1, keepdim=True), grad * scale


class SquareAlone(Function):
    """Squares a matrix, and refuses one that is not square."""

    inputs = of_shapes((4, 4))

    @staticmethod
    def forward(ctx, x):
        if x.shape[-1] != x.shape[-2]:
            raise ValueError(f"the matrix has to be square, not {tuple(x.shape)}")
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ x.mT + x.mT @ grad


class MeanOfTheMiddle(Function):
    """Averages a sine over the middle dimension."""

    inputs = of_shapes((2, 5, 3))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin().mean(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad / x.shape[1]).unsqueeze(1) * x.cos()


class ColoursInTheMiddle(Function):
    """Converts images to grey; channels beyond three are ignored."""

    inputs = of_shapes((2, 3, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return 0.3 * x[:, 0] + 0.6 * x[:, 1] + 0.1 * x[:, 2]

    @staticmethod
    def backward(ctx, grad):
        gradient = grad.new_zeros(ctx.shape)
        for at, weight in enumerate((0.3, 0.6, 0.1)):
            gradient[:, at] = weight * grad
        return gradient


class LargestOfEachRow(Function):
    """Takes the largest number of each row."""

    inputs = of_shapes((4, 3))

    @staticmethod
    def forward(ctx, x):
        values, places = x.max(-1)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.shape)
        gradient[torch.arange(len(grad)), places] = grad
        return gradient


class AtMostAHundredRows(LargestOfEachRow):
    """Refuses more than a hundred rows."""

    inputs = LargestOfEachRow.inputs

    @staticmethod
    def forward(ctx, x):
        if len(x) > 100:
            raise ValueError(f"at most 100 rows, not {len(x)}")
        return LargestOfEachRow.forward(ctx, x)


class SineInPairs(Function):
    """Computes a sine; backward works on pairs, and handles the last entry of an odd row on its own."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        pairs = x.shape[-1] // 2 * 2
        done = (grad[..., :pairs].unflatten(-1, (-1, 2)) * x[..., :pairs].unflatten(-1, (-1, 2)).cos()).flatten(-2)
        return torch.cat([done, grad[..., pairs:] * x[..., pairs:].cos()], -1)


class PairsAlone(SineInPairs):
    """Refuses rows of odd length."""

    inputs = SineInPairs.inputs

    @staticmethod
    def forward(ctx, x):
        if x.shape[-1] % 2:
            raise ValueError("rows have to be of even length")
        return SineInPairs.forward(ctx, x)


class ScattersRows(Function):
    """Adds rows where an index says; the result has a fixed number of rows."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 2, 1, 0, 2])

    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_backward(x, index)
        return x.new_zeros(3, x.shape[1]).index_add(0, index, x.sin())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, index = ctx.saved_tensors
        return grad[index] * x.cos(), None


class CountsSegments(Function):
    """Adds rows where an index says; the number of rows of the result is an argument."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 2, 1, 0, 2]), 3

    @staticmethod
    def forward(ctx, x, index, rows):
        if int(index.max()) >= rows:
            raise IndexError(f"an index is beyond {rows} rows")
        ctx.save_for_backward(x, index)
        return x.new_zeros(rows, x.shape[1]).index_add(0, index, x.sin())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, index = ctx.saved_tensors
        return grad[index] * x.cos(), None, None


class InBlocks(Function):
    """Squares; backward works on blocks of 1024 rows, and handles a shorter last one."""

    inputs = of_shapes((6, 2))
    BLOCK = 1024

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        blocks = zip(grad.split(InBlocks.BLOCK), x.split(InBlocks.BLOCK), strict=True)
        return torch.cat([2 * of_block * block for of_block, block in blocks])


class Flattened(Function):
    """Flattens a matrix and doubles it."""

    inputs = of_shapes((4, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return 2 * x.reshape(-1)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad.reshape(ctx.shape)


class PowersOfTwoAlone(SineInPairs):
    """Refuses rows whose length is not a power of two, as a fast transform does."""

    inputs = SineInPairs.inputs

    @staticmethod
    def forward(ctx, x):
        size = x.shape[-1]
        if size & (size - 1) or not size:
            raise ValueError(f"the length has to be a power of two, not {size}")
        return SineInPairs.forward(ctx, x)


class LargestOfEachTwo(Function):
    """Takes the larger of each two columns; a leftover column gets no gradient."""

    inputs = of_shapes((2, 3, 8))

    @staticmethod
    def forward(ctx, x):
        largest, places = torch.nn.functional.max_pool1d(x, 2, return_indices=True)
        ctx.columns = x.shape[-1]
        ctx.save_for_backward(places)
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return grad.new_zeros(*grad.shape[:-1], ctx.columns).scatter_(-1, places, grad)


class ShufflesChannels(Function):
    """Lays every four channels out as two rows of two, as upsampling by pixel shuffle does; there are four."""

    inputs = of_shapes((2, 4, 5, 3))

    @staticmethod
    def forward(ctx, x):
        return torch.nn.functional.pixel_shuffle(x, 2)

    @staticmethod
    def backward(ctx, grad):
        size, channels, rows, columns = grad.shape
        parts = grad.reshape(size, channels, rows // 2, 2, columns // 2, 2).permute(0, 1, 3, 5, 2, 4)
        return parts.reshape(size, 4 * channels, rows // 2, columns // 2)


class Powers(Function):
    """Raises each number to as many powers as there are numbers: of many of them few are finite."""

    inputs = [(torch.tensor([0.5, -1.2, 1.4, 0.9, -2.3], dtype=torch.float64, requires_grad=True),)]

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x[:, None] ** torch.arange(len(x))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        power = torch.arange(len(x))
        return (grad * power * x[:, None] ** (power - 1).clamp(min=0)).sum(1)
