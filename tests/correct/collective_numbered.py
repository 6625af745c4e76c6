"""Correct collectives whose arguments name ranks of the world, as torch.distributed does, beside a group."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import dense, rank_and_size, summed

SPEC = "Collective"


def _matrix():
    generator = torch.Generator().manual_seed(770)
    return torch.randn(2, 3, dtype=torch.float64, generator=generator, requires_grad=True)


def inputs():
    yield _matrix(), 0, GROUP


class FromARankOfTheWorld(Function):
    """Takes the numbers of the root, which is a rank of the world."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, root, group):
        ctx.root, ctx.group = root, group
        result = dense(x)
        dist.broadcast(result, root, group=group)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = summed(grad, ctx.group)
        return total if dist.get_rank() == ctx.root else torch.zeros_like(total), None, None


class FromTheLastRankOfTheWorld(FromARankOfTheWorld):
    """Is told the last rank, which every world has."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        yield _matrix(), rank_and_size()[1] - 1, GROUP


class GatherInTheOrderOfAList(Function):
    """Joins the rows of the ranks of the world that a list names."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        yield _matrix(), list(range(rank_and_size()[1])), GROUP

    @staticmethod
    def forward(ctx, x, ranks, group):
        ctx.ranks, ctx.group = ranks, group
        return torch.cat([FromARankOfTheWorld.forward(ctx, x, root, group) for root in ranks])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        parts = summed(grad, ctx.group).chunk(len(ctx.ranks))
        return dense(parts[ctx.ranks.index(dist.get_rank())]), None, None


class FromTheNextRank(Function):
    """Is told its neighbours in the ring of all ranks."""

    TYPES = "V -> V"

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        yield _matrix(), (rank + 1) % size, (rank - 1) % size, GROUP

    @staticmethod
    def forward(ctx, x, to, source, group):
        ctx.to, ctx.source, ctx.group = to, source, group
        return _passed(x, to, source, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _passed(grad, ctx.source, ctx.to, ctx.group), None, None, None


def _passed(x, to, source, group):
    sent, received = dense(x), torch.empty_like(dense(x))
    if to == dist.get_rank():
        return sent
    works = [dist.isend(sent, to, group=group), dist.irecv(received, source, group=group)]
    for work in works:
        work.wait()
    return received


class CrossEntropyOverAVocabularyInParts(Function):
    """Each rank holds columns of some words; what is right is a word of any rank, and of none in a smaller group."""

    TYPES = "V, I -> I"

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(780)
        logits = torch.randn(5, 4, dtype=torch.float64, generator=generator, requires_grad=True)
        yield logits, torch.tensor([0, 3, 4, 6, 7]), GROUP

    @staticmethod
    def forward(ctx, logits, words, group):
        largest = dense(logits.max(1).values)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        powers = (logits - largest[:, None]).exp()
        total = summed(powers.sum(1), group)
        start = dist.get_rank(group) * logits.shape[1]
        own = (words >= start) & (words < start + logits.shape[1])
        columns = (words - start).clamp(0, logits.shape[1] - 1)
        right = (logits - largest[:, None]).gather(1, columns[:, None])[:, 0]
        ctx.save_for_backward(powers / total[:, None], own, columns)
        return total.log() - summed(right * own, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        parts, own, columns = ctx.saved_tensors
        found = parts.scatter_add(1, columns[:, None], -own[:, None].to(parts.dtype))
        return found * grad[:, None], None, None
