"""Planted bugs: collectives whose results are infinite in places, and whose gradient is wrong elsewhere."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from tests.correct import collective_masked as right
from tests.correct._collectives import matrix_and_group, own_part, summed

SPEC = "Collective"


inputs = matrix_and_group


class GatherOfCausalScoresForOneLoss(right.GatherOfCausalScores):
    """Returns this rank's gradient alone.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return own_part(grad, ctx.group).masked_fill(torch.tensor(ctx.mask), 0), None


class SumWithoutFirstTwice(right.SumWithoutFirst):
    """Doubles the gradient.

    Breaks: Collective.backward.gradient
    """

    TYPES = "P -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = 2 * summed(grad, ctx.group)
        total.view(-1)[0] = 0
        return total, None
