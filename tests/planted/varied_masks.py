"""Bugs that show with another mask, permutation or index than that of the sample."""

from __future__ import annotations

import torch

from tests.correct import varied_masks as right

SPEC = "Function"


class MaskForgotten(right.Masked):
    """Forgets the mask, which keeps everything in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.Masked.inputs

    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return 2 * grad * x, None


class CountOfAWholeRow(right.OneLeftInEachRow):
    """Divides by the length of a row instead of the number of entries that a mask keeps.

    Breaks: Function.backward.gradient
    """

    inputs = right.OneLeftInEachRow.inputs

    @staticmethod
    def backward(ctx, grad):
        mask, _ = ctx.saved_tensors
        return (grad / mask.shape[-1])[:, None] * mask, None


class OrderTakenForItsInverse(right.InOrder):
    """Permutes by the order itself instead of its inverse; in the sample both are the same.

    Breaks: Function.backward.gradient
    """

    inputs = right.InOrder.inputs

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        return grad[order], None


class LastOfTwoPicked(right.PicksAnyRow):
    """Overwrites gradients of rows picked twice instead of adding them.

    ``twice`` duplicates the index; it is False in the sample.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield torch.randn(5, 2, dtype=torch.float64, requires_grad=True), torch.tensor([1, 3, 0]), False

    @staticmethod
    def forward(ctx, x, index, twice):
        index = torch.cat([index, index]) if twice else index
        return right.PicksAnyRow.forward(ctx, x, index)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        gradient = grad.new_zeros(ctx.rows, *grad.shape[1:])
        gradient[index] = grad
        return gradient, None, None


class DimensionsPermutedAgain(right.PermutesItsDimensions):
    """Permutes dimensions by the order itself instead of its inverse; in the sample both are the same.

    Breaks: Function.backward.gradient
    """

    inputs = right.PermutesItsDimensions.inputs

    @staticmethod
    def backward(ctx, grad):
        return grad.permute(ctx.order).clone(), None, None, None


class TwoRowsInEachSegment(right.SegmentsThatGrow):
    """Assumes two rows in each segment, and the rest in the last.

    Breaks: Function.backward.gradient
    """

    inputs = right.SegmentsThatGrow.inputs

    @staticmethod
    def backward(ctx, grad):
        (segment,) = ctx.saved_tensors
        return grad[(torch.arange(len(segment)) // 2).clamp(max=len(grad) - 1)], None


class NothingOfARowKept(right.SoftmaxOfUnmasked):
    """Computes the softmax again in backward, where a row of which nothing is kept is NaN.

    Breaks: Function.backward.gradient
    """

    inputs = right.SoftmaxOfUnmasked.inputs

    @staticmethod
    def forward(ctx, x, keep):
        ctx.save_for_backward(x, keep)
        return torch.where(keep, x, -torch.inf).softmax(-1).nan_to_num(0.0)

    @staticmethod
    def backward(ctx, grad):
        x, keep = ctx.saved_tensors
        y = torch.where(keep, x, -torch.inf).softmax(-1)
        return y * (grad - (grad * y).sum(-1, keepdim=True)), None


class LengthsOfTheWholeRow(right.MeanUpToLengths):
    """Divides by the length of the row, which is that of all rows in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeanUpToLengths.inputs

    @staticmethod
    def backward(ctx, grad):
        keep, _ = ctx.saved_tensors
        return (grad / keep.shape[1])[:, None] * keep, None


class SameNumberOfRows(right.SumsBetweenOffsets):
    """Assumes as many rows between any two offsets, as there are in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.SumsBetweenOffsets.inputs

    @staticmethod
    def backward(ctx, grad):
        (offsets,) = ctx.saved_tensors
        return grad.repeat_interleave(int(offsets[-1]) // len(grad), 0), None


class EverySecondRow(right.RowsTakenOnce):
    """Writes every second row, which are those that the sample takes.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.tensor([0, 2, 4])

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        dx = grad.new_zeros(ctx.rows, *grad.shape[1:])
        dx[:: int(index[1])][: len(grad)] = grad
        return dx, None


class PartsCountedByTheirRows(right.WeightsOfParts):
    """Numbers parts by the rows that they have: after an empty part, gradients of weights are a row too early.

    Breaks: Function.backward.gradient
    """

    inputs = right.WeightsOfParts.inputs

    @staticmethod
    def backward(ctx, grad):
        x, weights, lengths = ctx.saved_tensors
        parts = torch.arange(len(weights)).repeat_interleave(lengths)
        found = parts.unique_consecutive(return_inverse=True)[1]
        return grad * weights[parts], torch.zeros_like(weights).index_add(0, found, grad * x), None


class RunsAsLongAsTheFirst(right.MeansOfRuns):
    """Spreads the gradient as if all runs were as long as the first; in the sample they are.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeansOfRuns.inputs

    @staticmethod
    def backward(ctx, grad):
        _, lengths = ctx.saved_tensors
        return (grad / lengths[:, None]).repeat_interleave(int(lengths[0]), 0), None


class EpisodesEndLate(right.AdvantagesInEpisodes):
    """Begins each episode one step late, which shows if one ends before the last step but one.

    Breaks: Function.backward.gradient
    """

    inputs = right.AdvantagesInEpisodes.inputs

    @staticmethod
    def backward(ctx, grad):
        return right.AdvantagesInEpisodes.gradients(ctx, grad, 2)
