"""Collectives whose arguments or results have another shape on every rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct._collectives import dense, matrix_and_group

SPEC = "Collective"


def inputs():
    return matrix_and_group()


class GatherToOne(Function):
    """Rank 0 gets every rank's rows, the others get nothing."""

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group, ctx.shape, x = group, x.shape, dense(x)
        first = dist.get_rank(group) == 0
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))] if first else None
        dist.gather(x, parts, group=group, group_dst=0)
        return torch.cat(parts) if parts else x[:0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        mine = grad.new_empty(ctx.shape)
        first = dist.get_rank(ctx.group) == 0
        parts = [dense(part) for part in grad.chunk(dist.get_world_size(ctx.group))] if first else None
        dist.scatter(mine, parts, group=ctx.group, group_src=0)
        return mine, None
