"""Planted bugs: collectives that are wrong for longer tensors alone."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct import collective as right
from tests.correct._collectives import dense, matrix_and_group
from tests.samples import of_shapes

SPEC = "Collective"
#: Elements in the buffer.
FEW = 16


inputs = matrix_and_group


def _first_summed(x, group):
    """The sum over ranks of the first elements, and this rank's own of the others."""
    total = dense(x)
    dist.all_reduce(total.view(-1)[:FEW], group=group)
    return total


class ReducesWhatFitsIntoTheBuffer(right.Reduce):
    """What does not fit into a buffer of fixed size is not added up.

    Breaks: Collective.backward.gradient
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return _first_summed(x, group)


class BackwardReducesWhatFitsIntoTheBuffer(right.Copy):
    """The same in backward.

    Breaks: Collective.backward.gradient
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _first_summed(grad, ctx.group), None


class ReducesChunksWithoutTheLast(right.AllReduce):
    """Works in whole chunks; the last one, which is shorter, stays behind if there is another.

    Breaks: Collective.backward.gradient
    """

    TYPES = "P -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group, total = group, dense(x)
        flat = total.view(-1)
        for chunk in flat.split(FEW)[: max(1, len(flat) // FEW)]:
            dist.all_reduce(chunk, group=group)
        return total


class AddsItsOwnShareFirst(right.Copy):
    """Each rank adds up the gradients of all beginning with its own: they are equal but for their last bits.

    Breaks: Collective.backward.types
    """

    TYPES = "I -> R"

    inputs = of_shapes((3, 4), others=(GROUP,))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        shares = [torch.empty_like(dense(grad)) for _ in range(dist.get_world_size(ctx.group))]
        dist.all_gather(shares, dense(grad), group=ctx.group)
        total = shares.pop(dist.get_rank(ctx.group))
        for share in shares:
            total = total + share
        return total, None
