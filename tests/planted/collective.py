"""Planted bugs: collectives that do not keep the types they claim."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import collective as right
from tests.correct import collective_shapes as uneven
from tests.correct._collectives import dense, gathered, matrix_and_group, own_part, summed

SPEC = "Collective"


inputs = matrix_and_group


def _from_here(x, group):
    """Sum over ranks, starting from this one: rounding differs between three ranks."""
    parts, rank = gathered(x, group), dist.get_rank(group)
    total = parts[rank].clone()
    for part in [*parts[rank + 1 :], *parts[:rank]]:
        total = total * 1.0 + part
    return total


class ReducedToTheFirst(right.Reduce):
    """Reduces to the first rank only; the others return a partial sum.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = dense(x)
        dist.reduce(total, group=group, group_dst=0)
        return total


class SumInAnOrderOfItsOwn(right.Reduce):
    """Sums starting from its own tensor: rounding differs between ranks.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return _from_here(x, group)


class FirstShareTimesSize(right.Reduce):
    """Multiplies the first rank's tensor by the number of ranks instead of summing.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return gathered(x, group)[0] * dist.get_world_size(group)


class SumWithoutResult(right.Reduce):
    """Returns nothing.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        summed(x, group)


class SumAtTheFirstAlone(Function):
    """Reduces to the first rank; the others return None.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        total = dense(x)
        dist.reduce(total, group=group, group_dst=0)
        return total if dist.get_rank(group) == 0 else None

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


class CopyWithoutSum(right.Copy):
    """Returns its own gradient without the sum over ranks, as the other half of the pair does.

    Breaks: Collective.backward.gradient
    """

    TYPES = "I -> R"

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


class CopyWithMean(right.Copy):
    """Averages gradients, as for data-parallel training.

    Breaks: Collective.backward.gradient
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad, ctx.group) / dist.get_world_size(ctx.group), None


class ReduceWithSum(right.Reduce):
    """Sums gradients that are equal on all ranks: the loss counts once for each rank.

    Breaks: Collective.backward.gradient
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return summed(x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad, ctx.group), None


class GatherWithSlice(right.RingGather):
    """Returns its rows of its own gradient: correct for one loss, but its type says one for each rank.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return own_part(grad, ctx.group), None


class GatherWithNeighboursSlice(right.GatherForOneLoss):
    """Returns the next rank's rows of the gradient.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> I"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        size = dist.get_world_size(ctx.group)
        return dense(grad.chunk(size)[(dist.get_rank(ctx.group) + 1) % size]), None


class GatherOfTwo(right.RingGather):
    """Sums its own gradient and the next rank's only: correct for two ranks.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        parts, rank = gathered(grad, ctx.group), dist.get_rank(ctx.group)
        others = {rank, (rank + 1) % len(parts)}
        return own_part(sum(parts[at] for at in others), ctx.group), None


class LogSumExpOfThisRank(right.LogSumExp):
    """Computes the softmax over this rank's elements only.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> I"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return grad * torch.softmax(x.reshape(-1), 0).reshape(x.shape), None


class GradientInAnOrderOfItsOwn(right.Copy):
    """Sums starting from its own gradient: parameters drift apart between ranks.

    Breaks: Collective.backward.types
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _from_here(grad, ctx.group), None


class NoSignature(Function):
    """Fits no signature, and claims none.

    Breaks: Collective.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return summed(x * x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return 3 * grad, None


class GatherOfUnevenRowsForOneLoss(uneven.GatherOfUnevenRows):
    """Returns its rows of its own gradient, of as many rows as it has.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"

    inputs = uneven.GatherOfUnevenRows.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad.split(ctx.counts)[dist.get_rank(ctx.group)].clone(), None
