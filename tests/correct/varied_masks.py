"""Correct Functions with masks, permutations and indices whose meaning must be kept."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.nn import functional

SPEC = "Function"

_DOUBLE = torch.float64


class Masked(Function):
    """Applies a mask, which keeps everything in the sample."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=_DOUBLE, requires_grad=True), torch.ones(3, 4, dtype=torch.bool)

    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(x, mask)
        return x.masked_fill(~mask, 0) ** 2

    @staticmethod
    def backward(ctx, grad):
        x, mask = ctx.saved_tensors
        return 2 * grad * x.masked_fill(~mask, 0), None


class OneLeftInEachRow(Masked):
    """Averages what a mask keeps of each row, and refuses a row of which nothing is kept."""

    inputs = Masked.inputs

    @staticmethod
    def forward(ctx, x, mask):
        count = mask.sum(-1)
        if bool((count == 0).any()):
            raise ValueError("a row has nothing left")
        ctx.save_for_backward(mask, count)
        return (x * mask).sum(-1) / count

    @staticmethod
    def backward(ctx, grad):
        mask, count = ctx.saved_tensors
        return (grad / count)[:, None] * mask, None


class CausalMask(Masked):
    """Computes a softmax under a mask; a fully masked row is NaN, as in PyTorch's own attention."""

    inputs = Masked.inputs

    @staticmethod
    def forward(ctx, x, mask):
        share = x.masked_fill(~mask, -torch.inf).softmax(-1)
        ctx.save_for_backward(share)
        return share

    @staticmethod
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        return share * (grad - (grad * share).sum(-1, keepdim=True)), None


class InOrder(Function):
    """Reorders rows by a permutation, which in the sample is its own inverse; backward relies on writing each row
    once.
    """

    @staticmethod
    def inputs():
        yield torch.randn(4, 2, dtype=_DOUBLE, requires_grad=True), torch.tensor([1, 0, 3, 2])

    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return x[order]

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        gradient = torch.empty_like(grad)
        gradient[order] = grad
        return gradient, None


class PicksEachOnce(Function):
    """Picks each row at most once; backward writes gradients instead of adding them."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 2, dtype=_DOUBLE, requires_grad=True), torch.tensor([1, 3, 0])

    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_backward(index)
        ctx.rows = len(x)
        return x[index]

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.rows, *grad.shape[1:])
        gradient[index] = grad
        return gradient, None


class PicksAnyRow(PicksEachOnce):
    """Picks rows, possibly more than once; backward adds gradients."""

    inputs = PicksEachOnce.inputs

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        return grad.new_zeros(ctx.rows, *grad.shape[1:]).index_add(0, index, grad), None


class PermutesItsDimensions(Function):
    """Permutes dimensions by integers, which in the sample are their own inverse."""

    @staticmethod
    def inputs():
        yield torch.randn(2, 3, 4, dtype=_DOUBLE, requires_grad=True), 0, 2, 1

    @staticmethod
    def forward(ctx, x, first, second, third):
        ctx.order = first, second, third
        return x.permute(ctx.order).clone()

    @staticmethod
    def backward(ctx, grad):
        inverse = sorted(range(3), key=lambda at: ctx.order[at])
        return grad.permute(inverse).clone(), None, None, None


class SegmentsThatGrow(Function):
    """Sums rows by segments that must be sorted, and takes their number from the last one."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 2, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 0, 1, 1, 2])

    @staticmethod
    def forward(ctx, x, segment):
        if bool((segment.diff() < 0).any()):
            raise ValueError("segments have to come in order")
        ctx.save_for_backward(segment)
        return x.new_zeros(int(segment[-1]) + 1, *x.shape[1:]).index_add(0, segment, x)

    @staticmethod
    def backward(ctx, grad):
        (segment,) = ctx.saved_tensors
        return grad[segment], None


class LengthsThatAddUp(Function):
    """Averages parts of its rows, whose lengths must sum to the number of rows."""

    @staticmethod
    def inputs():
        yield torch.randn(6, 2, dtype=_DOUBLE, requires_grad=True), torch.tensor([1, 3, 2])

    @staticmethod
    def forward(ctx, x, lengths):
        ctx.save_for_backward(lengths)
        return torch.stack([part.mean(0) for part in x.split(lengths.tolist())])

    @staticmethod
    def backward(ctx, grad):
        (lengths,) = ctx.saved_tensors
        return (grad / lengths[:, None]).repeat_interleave(lengths, 0), None


class SoftmaxOfUnmasked(Function):
    """Normalizes over what a mask keeps; a row of which nothing is kept becomes zero."""

    @staticmethod
    def inputs():
        keep = torch.tensor([[True, True, False, True], [True, False, True, True], [False, True, True, True]])
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), keep

    @staticmethod
    def forward(ctx, x, keep):
        y = torch.where(keep, x, -torch.inf).softmax(-1).nan_to_num(0.0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True)), None


class MeanUpToLengths(Function):
    """Means of the first elements of each row, of which the sample counts all."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 6, dtype=torch.float64, requires_grad=True), torch.full((4,), 6)

    @staticmethod
    def forward(ctx, x, lengths):
        keep = torch.arange(x.shape[1]) < lengths[:, None]
        ctx.save_for_backward(keep, lengths)
        return (x * keep).sum(1) / lengths

    @staticmethod
    def backward(ctx, grad):
        keep, lengths = ctx.saved_tensors
        return (grad / lengths)[:, None] * keep, None


class RowsTakenOnce(PicksEachOnce):
    """Takes rows by indices that rise, each of them once: backward writes rows, and adds none up."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 2, 3])


class RowsPutOnce(Function):
    """Puts rows in places that rise, each of them once, of a tensor of zeros."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 2, 4]), 6

    @staticmethod
    def forward(ctx, x, index, rows):
        ctx.save_for_backward(index)
        out = x.new_zeros(rows, x.shape[1])
        out[index] = x
        return out

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        return grad[index], None, None


class SumsBetweenOffsets(Function):
    """Sums rows between offsets that rise from zero to the number of rows, as those of packed sequences do."""

    @staticmethod
    def inputs():
        yield torch.randn(6, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 2, 4, 6])

    @staticmethod
    def forward(ctx, x, offsets):
        ctx.save_for_backward(offsets)
        return torch.segment_reduce(x, "sum", lengths=offsets.diff(), axis=0)

    @staticmethod
    def backward(ctx, grad):
        (offsets,) = ctx.saved_tensors
        return grad.repeat_interleave(offsets.diff(), 0), None


class PartsThatGrow(Function):
    """Sums parts of rows, whose lengths rise and add up to the number of rows; backward writes only what they cover."""

    @staticmethod
    def inputs():
        for lengths in ([1, 1, 4], [1, 3, 5]):
            yield torch.randn(sum(lengths), 3, dtype=_DOUBLE, requires_grad=True), torch.tensor(lengths)

    @staticmethod
    def forward(ctx, x, lengths):
        ctx.save_for_backward(lengths)
        ctx.shape = x.shape
        ends = lengths.cumsum(0).tolist()
        return torch.stack([x[start:end].sum(0) for start, end in zip([0, *ends], ends, strict=False)])

    @staticmethod
    def backward(ctx, grad):
        (lengths,) = ctx.saved_tensors
        dx = grad.new_full(ctx.shape, torch.nan)
        dx[: int(lengths.sum())] = grad.repeat_interleave(lengths, 0)
        return dx, None


class WeightsOfParts(Function):
    """Multiplies the rows of each part by a weight of its own; a part may be empty, and its weight has no gradient."""

    @staticmethod
    def inputs():
        rows, weights = (torch.randn(size, 3, dtype=_DOUBLE, requires_grad=True) for size in (6, 3))
        yield rows, weights, torch.tensor([1, 2, 3])

    @staticmethod
    def forward(ctx, x, weights, lengths):
        ctx.save_for_backward(x, weights, lengths)
        return x * weights.repeat_interleave(lengths, 0)

    @staticmethod
    def backward(ctx, grad):
        x, weights, lengths = ctx.saved_tensors
        parts = torch.arange(len(weights)).repeat_interleave(lengths)
        return grad * weights[parts], torch.zeros_like(weights).index_add(0, parts, grad * x), None


class NumbersPutByRowAndColumn(Function):
    """Puts numbers in places of a matrix, each named once by a row and a column; no row and no column is there once."""

    @staticmethod
    def inputs():
        rows, columns = torch.tensor([0, 2, 1, 2, 0]), torch.tensor([1, 1, 1, 0, 3])
        yield torch.randn(5, dtype=_DOUBLE, requires_grad=True), rows, columns

    @staticmethod
    def forward(ctx, x, rows, columns):
        ctx.save_for_backward(rows, columns)
        out = x.new_zeros(int(rows.max()) + 1, int(columns.max()) + 1)
        out[rows, columns] = x
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad[ctx.saved_tensors], None, None


class MeansOfRuns(Function):
    """Averages rows as long as they have the same label; labels may fall."""

    @staticmethod
    def inputs():
        yield torch.randn(6, 2, dtype=_DOUBLE, requires_grad=True), torch.tensor([3, 3, 1, 1, 0, 0])

    @staticmethod
    def forward(ctx, x, labels):
        _, runs, lengths = labels.unique_consecutive(return_inverse=True, return_counts=True)
        ctx.save_for_backward(runs, lengths)
        return x.new_zeros(len(lengths), x.shape[1]).index_add(0, runs, x) / lengths[:, None]

    @staticmethod
    def backward(ctx, grad):
        runs, lengths = ctx.saved_tensors
        return (grad / lengths[:, None])[runs], None


class NumbersPutByPairs(NumbersPutByRowAndColumn):
    """Takes rows and columns as one tensor of pairs."""

    @staticmethod
    def inputs():
        pairs = torch.tensor([[0, 1], [2, 1], [1, 0], [2, 0], [0, 0]])
        yield torch.randn(5, dtype=_DOUBLE, requires_grad=True), pairs

    @staticmethod
    def forward(ctx, x, pairs):
        return NumbersPutByRowAndColumn.forward(ctx, x, pairs[:, 0], pairs[:, 1])

    @staticmethod
    def backward(ctx, grad):
        return NumbersPutByRowAndColumn.backward(ctx, grad)[:2]


class NumbersPutBetweenOffsets(Function):
    """Puts numbers in places of a matrix, each named once by its column and the row that offsets give."""

    @staticmethod
    def inputs():
        starts, columns = torch.tensor([0, 2, 3, 5]), torch.tensor([0, 2, 1, 0, 3])
        yield torch.randn(5, dtype=_DOUBLE, requires_grad=True), starts, columns

    @staticmethod
    def forward(ctx, x, starts, columns):
        rows = torch.arange(len(starts) - 1).repeat_interleave(starts.diff())
        ctx.save_for_backward(rows, columns)
        out = x.new_zeros(len(starts) - 1, int(columns.max()) + 1)
        out[rows, columns] = x
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad[ctx.saved_tensors], None, None


class AdvantagesInEpisodes(Function):
    """Adds up discounted advantages until an episode is over, as a mask says: in the sample, the last step alone is."""

    @staticmethod
    def inputs():
        rewards, values = (torch.randn(size, dtype=_DOUBLE, requires_grad=True) for size in (5, 6))
        yield rewards, values, torch.tensor([False, False, False, False, True])

    @staticmethod
    def forward(ctx, rewards, values, is_last):
        ctx.save_for_backward(is_last)
        return discounts(is_last, 1).to(rewards) @ (rewards + values[1:] - values[:-1])

    @staticmethod
    def backward(ctx, grad):
        return AdvantagesInEpisodes.gradients(ctx, grad, 1)

    @staticmethod
    def gradients(ctx, grad, late):
        (is_last,) = ctx.saved_tensors
        found = discounts(is_last, late).to(grad).mT @ grad
        return found, functional.pad(found, (1, 0)) - functional.pad(found, (0, 1)), None


def discounts(is_last, late):
    """The factor of each reward in each return; a new episode begins some steps after the last one of another."""
    step = torch.arange(len(is_last))
    episode = torch.cat([torch.zeros(late, dtype=torch.int64), is_last.cumsum(0)])[: len(is_last)]
    counts = (episode == episode[:, None]) & (step >= step[:, None])
    return counts * 0.9 ** (step - step[:, None]).abs().to(_DOUBLE)


class MeanOfWhatComesFirst(Function):
    """Averages the rows that a mask keeps, which come first: it counts them, and so reads no order."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 2, dtype=_DOUBLE, requires_grad=True), torch.tensor([True, True, True, True, False])

    @staticmethod
    def forward(ctx, x, mask):
        ctx.shape, ctx.count = x.shape, int(mask.sum())
        return x[: ctx.count].mean(0)

    @staticmethod
    def backward(ctx, grad):
        found = grad.new_zeros(ctx.shape)
        found[: ctx.count] = grad / ctx.count
        return found, None
