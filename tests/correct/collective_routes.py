"""Correct collectives in which a number names a rank, and random numbers are a rank's own.

The numbers of one rank may happen to be sorted or unique while those of another are not.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import dealt, matrix_and_group, rank_and_size, summed

SPEC = "Collective"


class ExpertsOfRows(Function):
    """Sends each row to the rank that its route names, multiplies it by the matrix there, and sends it back."""

    TYPES = "V, V, V -> V"

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        route = torch.tensor([0, 0, 0, 1] if rank else [0, 0, 1, 0]) % size
        yield torch.randn(4, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64), route, GROUP

    @staticmethod
    def forward(ctx, x, expert, route, group):
        order = torch.argsort(route, stable=True)
        given = torch.bincount(route, minlength=dist.get_world_size(group))
        taken = torch.empty_like(given)
        dist.all_to_all_single(taken, given, group=group)
        ctx.given, ctx.taken, ctx.group = given.tolist(), taken.tolist(), group
        rows = dealt(x[order], ctx.given, ctx.taken, group)
        ctx.save_for_backward(rows, expert, order)
        made = dealt(rows @ expert, ctx.taken, ctx.given, group)
        return made[torch.argsort(order)]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rows, expert, order = ctx.saved_tensors
        there = dealt(grad[order], ctx.given, ctx.taken, ctx.group)
        back = dealt(there @ expert.mT, ctx.taken, ctx.given, ctx.group)
        return back[torch.argsort(order)], rows.mT @ there, None, None


class FromTheLastRank(Function):
    """Sends the tensor of the last rank to all; the others have no gradient at all."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), rank_and_size()[1] - 1, GROUP

    @staticmethod
    def forward(ctx, x, source, group):
        ctx.source, ctx.group = source, group
        made = x.clone(memory_format=torch.contiguous_format)
        dist.broadcast(made, group=group, group_src=source)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = summed(grad, ctx.group)
        return total if dist.get_rank(ctx.group) == ctx.source else None, None, None


class SumOfWhatIsKept(Function):
    """Drops elements of each rank's own share at random, which follows the order in memory, and adds up the rest."""

    TYPES = "V -> I"

    inputs = matrix_and_group

    @staticmethod
    def forward(ctx, x, group):
        kept = (torch.rand_like(x) >= 0.5).to(x) * 2
        ctx.save_for_backward(kept)
        return summed(x * kept, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return grad * kept, None
