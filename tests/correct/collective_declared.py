"""Correct collectives whose gradients are declared by a formula instead of being derivatives."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP, Subject
from tests.correct._collectives import dense, gathered, matrix_and_group, own_part, summed

SPEC = "Collective"


class _GatherScaledUp(Function):
    """Gathers for one loss, and multiplies the gradient by the number of ranks, for a mean that follows."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return torch.cat(gathered(x, group))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return dist.get_world_size(ctx.group) * own_part(grad, ctx.group), None


class _SplitScaledDown(Function):
    """Returns this rank's rows; backward gathers and divides by the number of ranks."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return own_part(x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return torch.cat(gathered(grad, ctx.group)) / dist.get_world_size(ctx.group), None


class _CopyWithMean(Function):
    """Copies a tensor to code that differs between ranks, and averages the gradients."""

    @staticmethod
    def forward(ctx, x, factor, group):
        ctx.factor, ctx.group = factor, group
        return factor * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return ctx.factor * summed(grad, ctx.group) / dist.get_world_size(ctx.group), None, None


class _ClippedReduce(Function):
    """Sums, and clips the gradient; a second result has a gradient of its own."""

    @staticmethod
    def forward(ctx, x, group):
        total = summed(x, group)
        return total, 2 * total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, twice):
        return grad.clamp(-0.5, 0.5) + 2 * twice, None


class _SumInHalf(Function):
    """Adds up what every rank has in half precision, which takes less time to send; the gradient is passed on."""

    @staticmethod
    def forward(ctx, x, group):
        total = x.to(torch.float16, memory_format=torch.contiguous_format, copy=True)
        dist.all_reduce(total, group=group)
        return total.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return dense(grad), None


def _passed_on(args, grads):
    return dense(grads[0]), None


def _scaled_up(args, grads):
    _, group = args
    return dist.get_world_size(group) * own_part(grads[0], group), None


def _scaled_down(args, grads):
    _, group = args
    return torch.cat(gathered(grads[0], group)) / dist.get_world_size(group), None


def _mean(args, grads):
    _, factor, group = args
    return factor * summed(dense(grads[0]), group) / dist.get_world_size(group), None, None


def _clipped(args, grads):
    grad, twice = (torch.zeros_like(args[0]) if one is None else one for one in grads)
    return (grad.clamp(-0.5, 0.5) + 2 * twice,)


def _with_factor():
    yield torch.randn(2, 2, dtype=torch.float64, requires_grad=True), 3.0, GROUP


scaled_up = Subject(_GatherScaledUp, spec="Collective", types="V -> I", inputs=matrix_and_group, formula=_scaled_up)
scaled_down = Subject(
    _SplitScaledDown, spec="Collective", types="I -> V", inputs=matrix_and_group, formula=_scaled_down
)
mean = Subject(_CopyWithMean, spec="Collective", types="I -> R", inputs=_with_factor, formula=_mean)
clipped = Subject(_ClippedReduce, spec="Collective", types="P -> I", inputs=matrix_and_group, formula=_clipped)
in_half = Subject(_SumInHalf, spec="Collective", types="P -> I", inputs=matrix_and_group, formula=_passed_on)
