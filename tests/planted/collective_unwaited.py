"""Bugs in implementations of Collective that are one accusation: work not waited for, or changed, or left out."""

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
    """Starts the sum, and forgets it.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = dense(x)
        dist.all_reduce(total, group=group, async_op=True)
        return total


class GradientNobodyWaitsFor(right.Copy):
    """Starts the sum of the gradients, and forgets it.

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
    """Its share of a sum that it gives a moment: every rank has rows of its own, so none is at odds with another.

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
    """Starts a sum, and scales what is being summed before it waits.

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
    """Starts a sum into a part of its own memory, and writes to a row of that part before it waits.

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
    """Leaves out the communication in evaluation.

    Breaks: Function.forward.same-without-grad
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = x.clone(memory_format=torch.contiguous_format)
        if ctx.needs_input_grad[0]:
            dist.all_reduce(total, group=group)
        return total
