"""Correct collectives at points that are hard for differences: kinks, ties and scalars."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP, Subject
from tests.correct._collectives import dense, matrix_and_group
from tests.samples import of_shapes

SPEC = "Collective"


class GathersAfterReLU(Function):
    """Gathers the output of a ReLU at zeros: a difference that moves all of them at once crosses every kink."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        yield torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64, requires_grad=True), GROUP

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        ctx.save_for_backward(x > 0)
        positive = dense(x.relu())
        parts = [torch.empty_like(positive) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, positive, group=group)
        return torch.stack(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (positive,) = ctx.saved_tensors
        total = dense(grad)
        dist.all_reduce(total, group=ctx.group)
        return total[dist.get_rank(ctx.group)] * positive, None


class MeanOfLosses(Function):
    """Averages a scalar over ranks."""

    TYPES = "P -> I"

    inputs = of_shapes((), others=(GROUP,))

    @staticmethod
    def forward(ctx, loss, group):
        ctx.size = dist.get_world_size(group)
        total = loss.clone()
        dist.all_reduce(total, group=group)
        return total / ctx.size

    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.size, None


class LargestOfAll(Function):
    """Takes the maximum over all ranks; the ranks that hold it get the gradient.

    The runner-up is so close that a step in half precision passes it, here and at nearby points.
    """

    TYPES = "V -> I"

    @staticmethod
    def inputs():
        yield torch.tensor([1.0, 0.99, 0.98, 0.97, 0.96, -0.95], dtype=torch.float64, requires_grad=True), GROUP
        yield torch.tensor([0.5], dtype=torch.float64, requires_grad=True), GROUP

    @staticmethod
    def forward(ctx, x, group):
        most = x.amax().clone()
        dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
        having = x == most
        count = having.sum()
        dist.all_reduce(count, group=group)
        ctx.save_for_backward(having, count)
        return most

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        having, count = ctx.saved_tensors
        return having * (grad / count), None


class _Start(Function):
    @staticmethod
    def forward(ctx, x, group, started):
        total = dense(x)
        started.append(dist.all_reduce(total, group=group, async_op=True))
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class _Wait(Function):
    @staticmethod
    def forward(ctx, total, started):
        started.pop().wait()
        return total.view_as(total)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def _overlapped(x, group):
    """Starts a sum in one Function and waits in another, so that work in between overlaps with it."""
    started = []
    return _Wait.apply(_Start.apply(x, group, started), started)


OVERLAPPED = Subject(_overlapped, spec="Collective", types="P -> I", inputs=matrix_and_group)
