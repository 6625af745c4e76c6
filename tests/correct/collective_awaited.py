"""Correct collectives that begin work in forward and wait for it in backward."""

from __future__ import annotations

import time

import torch.distributed as dist
from torch.autograd import Function

from tests.correct._collectives import dense, matrix_and_group

SPEC = "Collective"
inputs = matrix_and_group


class DoublesWhileOthersCompare(Function):
    """Doubles; meanwhile the smallest and the largest number of all ranks are found. Only handles are kept on ctx."""

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx, x, group):
        smallest, largest = x.aminmax()
        ctx.first = dist.all_reduce(smallest, dist.ReduceOp.MIN, group, async_op=True)
        ctx.second = dist.all_reduce(largest, dist.ReduceOp.MAX, group, async_op=True)
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        ctx.first.wait()
        ctx.second.wait()
        return 2 * grad, None


class AsksUntilTheSumIsThere(Function):
    """Sums over all ranks, and asks whether it has ended until it has."""

    TYPES = "P -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        total = dense(x)
        work = dist.all_reduce(total, group=group, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
        work.wait()
        return total

    @staticmethod
    def backward(ctx, grad):
        return AsksUntilTheSumIsThere.apply(grad, ctx.group), None
