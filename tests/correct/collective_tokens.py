"""Correct collectives that leave out tokens: ranks may leave out other numbers of them."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import gathered, summed

SPEC = "Collective"


def inputs():
    """Return a loss for each token, which of them count, and the group."""
    generator = torch.Generator().manual_seed(701)
    losses = torch.randn(6, dtype=torch.float64, generator=generator, requires_grad=True)
    return [(losses, torch.tensor([True, True, False, True, True, False]), GROUP)]


def scores_and_labels():
    """Return scores, labels of which some are ignored, and the group."""
    generator = torch.Generator().manual_seed(702)
    scores = torch.randn(5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    return [(scores, torch.tensor([2, -100, 0, 1, -100]), GROUP)]


def rows_and_lengths():
    """Return losses for the tokens of each row, how many of them count, and the group."""
    generator = torch.Generator().manual_seed(703)
    losses = torch.randn(3, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    return [(losses, torch.tensor([4, 2, 3]), GROUP)]


def losses_and_classes():
    """Return losses, the class of each, and the group."""
    generator = torch.Generator().manual_seed(704)
    losses = torch.randn(5, dtype=torch.float64, generator=generator, requires_grad=True)
    return [(losses, torch.tensor([0, 1, 1, 2, 0]), GROUP)]


class MeanOverTokens(Function):
    """Averages over the tokens of all ranks that count."""

    TYPES = "V, V -> I"

    @staticmethod
    def forward(ctx, losses, mask, group):
        count = summed(mask.sum(), group)
        ctx.save_for_backward(mask, count)
        return summed((losses * mask).sum(), group) / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        mask, count = ctx.saved_tensors
        return grad * mask / count, None, None


class MeanOverLabels(Function):
    """Averages the score of the right class over the labels of all ranks that are not ignored."""

    TYPES = "V, V -> I"
    inputs = scores_and_labels

    @staticmethod
    def forward(ctx, scores, labels, group):
        kept = labels != -100
        count = summed(kept.sum(), group)
        ctx.save_for_backward(labels, count)
        ctx.shape = scores.shape
        chosen = scores.gather(1, labels.clamp_min(0)[:, None])[:, 0]
        return summed((chosen * kept).sum(), group) / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        labels, count = ctx.saved_tensors
        each = (grad * (labels != -100) / count)[:, None]
        return grad.new_zeros(ctx.shape).scatter(1, labels.clamp_min(0)[:, None], each), None, None


class MeanOverLengths(Function):
    """Averages over the first tokens of each row, as many as its length says."""

    TYPES = "V, V -> I"
    inputs = rows_and_lengths

    @staticmethod
    def forward(ctx, losses, lengths, group):
        mask = torch.arange(losses.shape[1]) < lengths[:, None]
        count = summed(lengths.sum(), group)
        ctx.save_for_backward(mask, count)
        return summed((losses * mask).sum(), group) / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return MeanOverTokens.backward(ctx, grad)


class MeanOfClasses(Function):
    """Adds up the mean over each class, so that rare ones count as much as others."""

    TYPES = "V, V -> I"
    inputs = losses_and_classes

    @staticmethod
    def forward(ctx, losses, classes, group):
        counts = summed(classes.bincount(minlength=3), group)
        ctx.save_for_backward(classes, counts)
        return summed((losses / counts[classes]).sum(), group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        classes, counts = ctx.saved_tensors
        return grad / counts[classes], None, None


class GatherOfTokens(Function):
    """Gathers the tokens that count, of which every rank must have as many."""

    TYPES = "V, V -> I"

    @staticmethod
    def forward(ctx, losses, mask, group):
        ctx.save_for_backward(mask)
        ctx.rank = dist.get_rank(group)
        return torch.stack(gathered(losses[mask], group))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad.new_zeros(mask.shape).masked_scatter(mask, grad[ctx.rank]), None, None


class MeanOfGathered(Function):
    """Averages the tokens that count, of which every rank must have as many: it gathers them all in backward too."""

    TYPES = "V, V -> I"

    @staticmethod
    def forward(ctx, losses, mask, group):
        ctx.group = group
        ctx.save_for_backward(mask)
        return torch.stack(gathered(losses[mask], group)).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        every = grad.expand(int(mask.sum()) * dist.get_world_size(ctx.group))
        return mask * grad / len(every), None, None


class RefusesUnevenRanks(Function):
    """Averages over tokens, and refuses ranks that do not have as many: what comes after counts on it."""

    TYPES = "V, V -> I"

    @staticmethod
    def forward(ctx, losses, mask, group):
        counts = gathered(mask.sum(), group)
        if len({int(count) for count in counts}) > 1:
            raise ValueError("ranks have to keep as many tokens")
        ctx.save_for_backward(mask, sum(counts))
        return summed((losses * mask).sum(), group) / sum(counts)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        mask, count = ctx.saved_tensors
        return grad * mask / count, None, None
