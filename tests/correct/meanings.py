"""Correct Functions that rely on the meaning of an argument: a permutation, sorted numbers, a one-hot mask."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import given

SPEC = "Function"


def _rows(count=6, width=2):
    return torch.rand(count, width, dtype=torch.float64, requires_grad=True)


class Permuted(Function):
    """Reorders rows by a permutation; backward relies on writing each row once."""

    inputs = given((_rows(), torch.tensor([1, 2, 0, 4, 5, 3])))

    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return x[order]

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        dx = torch.empty_like(grad)
        dx[order] = grad
        return dx, None


class FirstRowsPermuted(Function):
    """Reorders the first rows by a permutation; backward fills the others with zeros."""

    inputs = given((_rows(), torch.tensor([1, 2, 0])))

    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        ctx.shape = x.shape
        return x[order]

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        dx = grad.new_empty(ctx.shape)
        dx[order] = grad
        dx[len(order) :] = 0
        return dx, None


class PermutedColumns(Function):
    """Reorders columns by a permutation; the number of rows does not matter."""

    inputs = given((_rows(2, 6), torch.tensor([1, 2, 0, 4, 5, 3])))

    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return x[:, order]

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        dx = torch.empty_like(grad)
        dx[:, order] = grad
        return dx, None


class EachRowPermuted(Function):
    """Reorders each row by a permutation of its own."""

    inputs = given((_rows(2, 4), torch.tensor([[1, 3, 0, 2], [3, 2, 1, 0]])))

    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return x.gather(1, order)

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        return torch.empty_like(grad).scatter_(1, order, grad), None


class Split(Function):
    """Squares some rows, then appends the others; two index tensors name each row once."""

    inputs = given((_rows(), torch.tensor([4, 0, 3]), torch.tensor([1, 5, 2])))

    @staticmethod
    def forward(ctx, x, squared, others):
        ctx.save_for_backward(x, squared, others)
        return torch.cat([x[squared].square(), x[others]])

    @staticmethod
    def backward(ctx, grad):
        x, squared, others = ctx.saved_tensors
        dx = torch.empty_like(x)
        dx[squared] = 2 * x[squared] * grad[: len(squared)]
        dx[others] = grad[len(squared) :]
        return dx, None, None


class Chosen(Function):
    """Picks each row at most once, so backward writes gradients instead of adding them."""

    inputs = given((_rows(), torch.tensor([4, 1, 3])))

    @staticmethod
    def forward(ctx, x, chosen):
        ctx.save_for_backward(chosen)
        ctx.shape = x.shape
        return x[chosen]

    @staticmethod
    def backward(ctx, grad):
        (chosen,) = ctx.saved_tensors
        dx = grad.new_zeros(ctx.shape)
        dx[chosen] = grad
        return dx, None


class ReplacedRows(Function):
    """Writes rows to places, each of them once; the places add up to the number of rows, as lengths of parts do."""

    inputs = given((_rows(4), torch.tensor([1, 0, 3]), _rows(3)))

    @staticmethod
    def forward(ctx, x, places, rows):
        ctx.save_for_backward(places)
        return x.index_copy(0, places, rows)

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return grad.index_fill(0, places, 0), None, grad[places]


class SegmentSum(Function):
    """Sums consecutive rows with the same number."""

    inputs = given((_rows(), torch.tensor([0, 0, 1, 1, 1, 2])))

    @staticmethod
    def forward(ctx, x, segments):
        counts = torch.unique_consecutive(segments, return_counts=True)[1]
        ctx.counts = counts.tolist()
        return torch.stack([part.sum(0) for part in x.split(ctx.counts)])

    @staticmethod
    def backward(ctx, grad):
        return torch.cat([row.expand(count, -1) for row, count in zip(grad, ctx.counts, strict=True)]), None


class PaddedParts(Function):
    """Pads parts of rows, whose lengths sum to the number of rows; backward writes only what they cover."""

    inputs = given((_rows(), torch.tensor([3, 1, 2])))

    @staticmethod
    def forward(ctx, x, lengths):
        ctx.rows, ctx.lengths = x.shape[0], lengths.tolist()
        padded = x.new_zeros(len(ctx.lengths), max(ctx.lengths), x.shape[1])
        start = 0
        for number, length in enumerate(ctx.lengths):
            padded[number, :length] = x[start : start + length]
            start += length
        return padded

    @staticmethod
    def backward(ctx, grad):
        dx = grad.new_empty(ctx.rows, grad.shape[2])
        start = 0
        for number, length in enumerate(ctx.lengths):
            dx[start : start + length] = grad[number, :length]
            start += length
        return dx, None


class BetweenOffsets(Function):
    """Sums rows between offsets that run from zero to the number of rows; backward writes only between them."""

    inputs = given((_rows(), torch.tensor([0, 3, 4, 6])))

    @staticmethod
    def forward(ctx, x, offsets):
        ctx.offsets = offsets.tolist()
        ctx.rows = x.shape[0]
        pairs = zip(ctx.offsets, ctx.offsets[1:], strict=False)
        return torch.stack([x[start:end].sum(0) for start, end in pairs])

    @staticmethod
    def backward(ctx, grad):
        dx = grad.new_empty(ctx.rows, grad.shape[1])
        for number, (start, end) in enumerate(zip(ctx.offsets, ctx.offsets[1:], strict=False)):
            dx[start:end] = grad[number]
        return dx, None


class ListedLengths(Function):
    """Sums parts of rows, whose lengths are a list; backward writes only what they cover."""

    inputs = given((_rows(), [3, 1, 2]))

    @staticmethod
    def forward(ctx, x, lengths):
        ctx.rows, ctx.lengths = x.shape[0], lengths
        parts, start = [], 0
        for length in lengths:
            parts.append(x[start : start + length].sum(0))
            start += length
        return torch.stack(parts)

    @staticmethod
    def backward(ctx, grad):
        dx = grad.new_empty(ctx.rows, grad.shape[1])
        start = 0
        for number, length in enumerate(ctx.lengths):
            dx[start : start + length] = grad[number]
            start += length
        return dx, None


class FirstRows(Function):
    """Keeps the rows that a mask selects, which must come first; backward relies on that."""

    inputs = given((_rows(), torch.tensor([True, True, True, True, False, False])))

    @staticmethod
    def forward(ctx, x, mask):
        ctx.count, ctx.rows = int(mask.sum()), x.shape[0]
        return x[mask]

    @staticmethod
    def backward(ctx, grad):
        dx = grad.new_empty(ctx.rows, grad.shape[1])
        dx[: ctx.count] = grad
        dx[ctx.count :] = 0
        return dx, None


class OneHot(Function):
    """Picks one element of each row by a one-hot mask; backward relies on that."""

    inputs = given((_rows(3, 3), torch.eye(3, dtype=torch.float64)[[2, 0, 1]]))

    @staticmethod
    def forward(ctx, x, mask):
        place = mask.argmax(1)
        ctx.save_for_backward(place)
        ctx.shape = x.shape
        return (x * mask).sum(1)

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter_(1, place[:, None], grad[:, None]), None


class Interpolated(Function):
    """Interpolates between knots that must be sorted."""

    inputs = given(
        (torch.tensor([0.3, 1.2, 2.9], dtype=torch.float64, requires_grad=True), torch.arange(5, dtype=torch.float64))
    )

    @staticmethod
    def forward(ctx, x, knots):
        right = torch.searchsorted(knots, x.detach()).clamp(1, len(knots) - 1)
        ctx.save_for_backward(knots[right] - knots[right - 1])
        ctx.count = len(knots)
        assert bool((knots.diff() > 0).all())
        return (x - knots[right - 1]) / (knots[right] - knots[right - 1])

    @staticmethod
    def backward(ctx, grad):
        (width,) = ctx.saved_tensors
        return grad / width, None


class Mixed(Function):
    """Averages rows by weights that sum to one; backward relies on that for the last row."""

    inputs = given((_rows(3), torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)))

    @staticmethod
    def forward(ctx, x, weights):
        ctx.save_for_backward(weights)
        return (x * weights[:, None]).sum(0)

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        dx = torch.outer(weights, grad)
        dx[-1] = grad - dx[:-1].sum(0)
        return dx, None


class Triangular(Function):
    """Multiplies by a lower triangular matrix; backward reads only that triangle."""

    inputs = given((_rows(3), torch.rand(3, 3, dtype=torch.float64).tril()))

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(factor)
        return factor @ x

    @staticmethod
    def backward(ctx, grad):
        (factor,) = ctx.saved_tensors
        return factor.tril().mT @ grad, None
