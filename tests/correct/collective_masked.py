"""Correct collectives whose results are infinite where a mask says so."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct._collectives import gathered, matrix_and_group, own_part, summed

SPEC = "Collective"


inputs = matrix_and_group


class GatherOfCausalScores(Function):
    """Gathers the rows of all ranks, of which the first may see the first column alone."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        ctx.mask = [[False, row == 0] for row in range(len(x))]
        return torch.cat(gathered(x.masked_fill(torch.tensor(ctx.mask), -torch.inf), group))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return own_part(summed(grad, ctx.group), ctx.group).masked_fill(torch.tensor(ctx.mask), 0), None


class SumWithoutFirst(Function):
    """Sums over all ranks; the first element is no number, as of a row that nothing is known of."""

    TYPES = "P -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        total = summed(x, group)
        total.view(-1)[0] = torch.nan
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = summed(grad, ctx.group)
        total.view(-1)[0] = 0
        return total, None
