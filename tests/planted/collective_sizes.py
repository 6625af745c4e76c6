"""Planted bugs: collectives that are wrong only for longer tensors."""

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
    """Sum the first elements over ranks; the others stay this rank's own."""
    total = dense(x)
    dist.all_reduce(total.view(-1)[:FEW], group=group)
    return total


class ReducesWhatFitsIntoTheBuffer(right.Reduce):
    """Sums only what fits into a buffer of fixed size.

    Breaks: Collective.backward.gradient
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return _first_summed(x, group)


class BackwardReducesWhatFitsIntoTheBuffer(right.Copy):
    """Sums in backward only what fits into a buffer of fixed size.

    Breaks: Collective.backward.gradient
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _first_summed(grad, ctx.group), None


class ReducesChunksWithoutTheLast(right.AllReduce):
    """Sums in chunks, and forgets a shorter last chunk unless it is the only one.

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
    """Sums gradients starting with its own: they differ in their last bits between ranks.

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
