"""Correct collectives whose samples depend on the world size, and have no meaning in a smaller group."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import dense, gathered, own_part, rank_and_size, summed

SPEC = "Collective"


class TwoParametersOfFlatParts(Function):
    """Gathers two parameters from flat parts, whose length depends on the number of ranks."""

    TYPES = "V -> R, R"
    SHAPES = ((2, 2), (3,))

    @staticmethod
    def inputs():
        _, size = rank_and_size()
        yield torch.randn(-(-7 // size), dtype=torch.float64, requires_grad=True), GROUP

    @staticmethod
    def forward(ctx, part, group):
        ctx.group = group
        ctx.missing = len(part) * dist.get_world_size(group) - 7
        first, second, _ = torch.cat(gathered(part, group)).split([4, 3, ctx.missing])
        return dense(first.reshape(2, 2)), dense(second)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        whole = F.pad(torch.cat([grad.reshape(-1) for grad in grads]), (0, ctx.missing))
        return own_part(summed(whole, ctx.group), ctx.group), None


class ExchangeOfEqualShares(Function):
    """Splits its rows equally among ranks, and refuses a number that cannot be split; higher ranks have more rows."""

    TYPES = "V -> V"

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        yield torch.randn((rank + 1) * size, 2, dtype=torch.float64, requires_grad=True), GROUP

    @staticmethod
    def forward(ctx, x, group):
        size = dist.get_world_size(group)
        if len(x) % size:
            raise ValueError(f"{len(x)} rows cannot be dealt out to {size} ranks")
        shares = torch.cat(gathered(torch.tensor([len(x) // size]), group))
        ctx.group, ctx.shares = group, shares.tolist()
        rows = x.new_empty(sum(ctx.shares), x.shape[1])
        dist.all_to_all_single(rows, dense(x), ctx.shares, [len(x) // size] * size, group=group)
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rank, size = dist.get_rank(ctx.group), dist.get_world_size(ctx.group)
        rows = grad.new_empty(size * ctx.shares[rank], grad.shape[1])
        dist.all_to_all_single(rows, dense(grad), [ctx.shares[rank]] * size, ctx.shares, group=ctx.group)
        return rows, None
