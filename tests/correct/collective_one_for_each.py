"""Correct collectives whose arguments have one entry for each rank, so that samples fit one world size only."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct import collective_shapes as uneven
from tests.correct._collectives import dense, rank_and_size

SPEC = "Collective"


class SumOfOneForEachRank(Function):
    """Takes one row for each rank, and returns the sum of the rows for this one."""

    TYPES = "P -> V"

    @staticmethod
    def inputs():
        _, size = rank_and_size()
        yield torch.randn(size, 2, dtype=torch.float64, requires_grad=True), GROUP

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        mine = x.new_empty(x.shape[1:])
        dist.reduce_scatter(mine, list(dense(x)), group=group)
        return mine

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rows = grad.new_empty(dist.get_world_size(ctx.group), *grad.shape)
        dist.all_gather(list(rows), dense(grad), group=ctx.group)
        return rows, None


class GatherThatIsToldEveryShape(Function):
    """Takes the shapes on all ranks as an argument, and splits the gradient by them."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        _, size = rank_and_size()
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), [[2, 3]] * size, GROUP

    @staticmethod
    def forward(ctx, x, shapes, group):
        ctx.shapes, ctx.group = shapes, group
        parts = [x.new_empty(shapes[rank]) for rank in range(dist.get_world_size(group))]
        dist.all_gather(parts, dense(x), group=group)
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = dense(grad)
        dist.all_reduce(total, group=ctx.group)
        return total.split([rows for rows, _ in ctx.shapes])[dist.get_rank(ctx.group)].clone(), None, None


class GatherOfKnownRows(uneven.GatherOfUnevenRows):
    """Takes the number of rows on every rank as an argument, in the order of ranks."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        yield torch.randn(1 + rank, 2, dtype=torch.float64, requires_grad=True), tuple(range(1, size + 1)), GROUP

    @staticmethod
    def forward(ctx, x, counts, group):
        if len(x) != counts[dist.get_rank(group)]:
            raise ValueError(f"{counts[dist.get_rank(group)]} rows are expected, and there are {len(x)}")
        return uneven.GatherOfUnevenRows.forward(ctx, x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return uneven.GatherOfUnevenRows.backward(ctx, grad)[0], None, None
