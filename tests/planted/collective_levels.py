"""Planted bugs: collectives that are wrong in the second of two levels."""

from __future__ import annotations

import torch.distributed as dist
from torch.autograd.function import once_differentiable

from tests.correct import collective_levels as right
from tests.correct._collectives import dense, summed
from tests.samples import of_shapes

SPEC = "Collective"

inputs = of_shapes((2, 3))


class GradientOfOneLevel(right.SumInTwoLevels):
    """Sums gradients within pairs only: correct if there is one pair.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        _, pair, _ = right.pairs_and_leaders()
        return summed(grad, pair)


class SkipsZerosAmongLeaders(right.SumInTwoLevels):
    """Skips the sum over pairs on the first rank of a pair if its own argument is zero: the others wait.

    Breaks: Collective.forward.same-calls
    """

    TYPES = "P -> R"

    @staticmethod
    def forward(ctx, x):
        first, pair, leaders = right.pairs_and_leaders()
        total = dense(x)
        dist.reduce(total, first, group=pair)
        if dist.get_rank() == first and bool(x.any()):
            dist.all_reduce(total, group=leaders)
        dist.broadcast(total, first, group=pair)
        return total
