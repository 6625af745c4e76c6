"""Correct collectives between pairs of ranks, in rings, and in place."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct._collectives import dense, matrix_and_group, rank_and_size, summed

SPEC = "Collective"


inputs = matrix_and_group


class BroadcastInPlace(Function):
    """Overwrites the tensors of all ranks but the first, in place."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        ctx.mark_dirty(x)
        whole = dense(x)
        dist.broadcast(whole, group=group, group_src=0)
        return x.copy_(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = summed(grad, ctx.group)
        return total if dist.get_rank(ctx.group) == 0 else torch.zeros_like(total), None


def _passed(x, to, source):
    """Send this rank's tensor to one rank, and receive that of another."""
    if to == dist.get_rank():
        return dense(x)
    received = torch.empty_like(dense(x))
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, dense(x), to), dist.P2POp(dist.irecv, received, source)])
    for work in works:
        work.wait()
    return received


class RingOfNumberedRanks(Function):
    """Takes as arguments the ranks that it sends to and receives from: integers that differ between ranks."""

    TYPES = "V -> V"

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        generator = torch.Generator().manual_seed(730)
        x = torch.randn(3, 2, dtype=torch.float64, generator=generator, requires_grad=True)
        yield x, (rank + 1) % size, (rank - 1) % size

    @staticmethod
    def forward(ctx, x, to, source):
        ctx.to, ctx.source = to, source
        return _passed(x, to, source)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _passed(grad, ctx.source, ctx.to), None, None
