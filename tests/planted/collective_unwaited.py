"""Planted bugs: collectives that are never waited for, whose tensors are modified meanwhile, or that are skipped."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from tests.correct import collective as right
from tests.correct._collectives import dense, gathered, matrix_and_group
from tests.planted.collective_calls import WorkLeftBehind

SPEC = "Collective"


inputs = matrix_and_group


class SumNobodyWaitsFor(right.Reduce):
    """Starts the sum and never waits for it.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = dense(x)
        dist.all_reduce(total, group=group, async_op=True)
        return total


class GradientNobodyWaitsFor(right.Copy):
    """Starts the sum of gradients and never waits for it.

    Breaks: Collective.backward.gradient
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = dense(grad)
        dist.all_reduce(total, group=ctx.group, async_op=True)
        return total, None


class RowsThatComeLate(WorkLeftBehind):
    """Returns its rows of a sum that it waits for only briefly: as every rank has its own rows, no two ranks disagree.

    Breaks: Collective.forward.complete
    """

    TYPES = "P -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        total = WorkLeftBehind.forward(ctx, x, group)
        return total.chunk(dist.get_world_size(group))[dist.get_rank(group)]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return torch.cat(gathered(grad, ctx.group)), None


class ScalesWhileItIsSummed(right.Reduce):
    """Scales a tensor while it is being summed.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = x.clone(memory_format=torch.contiguous_format)
        work = dist.all_reduce(total, group=group, async_op=True)
        total.mul_(1.0)
        work.wait()
        return total


class ScalesARowWhileItIsSummed(right.Reduce):
    """Writes to a row of a tensor while it is being summed; the tensor is part of a larger one.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = x.new_zeros(2, *x.shape)[1]
        total.copy_(x)
        work = dist.all_reduce(total, group=group, async_op=True)
        total[:1].mul_(1.0)
        work.wait()
        return total.clone()


class SumsWhereAGradientIsNeeded(right.Reduce):
    """Skips the collective if no gradient is needed.

    Breaks: Function.forward.same-without-grad
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = x.clone(memory_format=torch.contiguous_format)
        if ctx.needs_input_grad[0]:
            dist.all_reduce(total, group=group)
        return total
