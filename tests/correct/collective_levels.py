"""Correct collectives in several steps: over subgroups first, or started by one Function and finished by another."""

from __future__ import annotations

import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.correct._collectives import dense, matrix_and_group
from tests.samples import of_shapes

SPEC = "Collective"
#: The process groups of pairs of ranks and of their first ones, by the world that they belong to.
_LEVELS = {}


def pairs_and_leaders():
    """Return the first rank of this rank's pair, the pair's group, and the group of all first ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if dist.group.WORLD not in _LEVELS:
        pairs = [dist.new_group(list(range(first, min(first + 2, size)))) for first in range(0, size, 2)]
        _LEVELS[dist.group.WORLD] = pairs[rank // 2], dist.new_group(list(range(0, size, 2)))
    return rank - rank % 2, *_LEVELS[dist.group.WORLD]


class SumInTwoLevels(Function):
    """Sums in pairs of ranks, then among the first ranks of all pairs: neighbours call different collectives.

    It makes its own groups, so it takes none as an argument.
    """

    TYPES = "P -> R"

    inputs = of_shapes((2, 3))

    @staticmethod
    def forward(ctx, x):
        return SumInTwoLevels.added_up(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return SumInTwoLevels.added_up(grad)

    @staticmethod
    def added_up(x):
        first, pair, leaders = pairs_and_leaders()
        total = dense(x)
        dist.reduce(total, first, group=pair)
        if dist.get_rank() == first:
            dist.all_reduce(total, group=leaders)
        dist.broadcast(total, first, group=pair)
        return total


class _WaitInBackward(Function):
    @staticmethod
    def forward(ctx, x, started):
        ctx.started = started
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        ctx.started.pop().wait()
        return grad, None


class _StartInBackward(Function):
    @staticmethod
    def forward(ctx, x, group, started):
        ctx.group, ctx.started = group, started
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = dense(grad)
        ctx.started.append(dist.all_reduce(total, group=ctx.group, async_op=True))
        return total, None, None


def _overlapped(x, group):
    """Starts the sum of gradients in one backward and waits for it in the next, whose incoming gradient is
    incomplete until then.
    """
    started = []
    return _StartInBackward.apply(_WaitInBackward.apply(x, started), group, started)


OVERLAPPED_IN_BACKWARD = Subject(_overlapped, spec="Collective", types="I -> R", inputs=matrix_and_group)
