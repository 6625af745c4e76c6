"""Correct collectives whose results are differentiable on some ranks only."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function

from tests.correct._collectives import matrix_and_group

SPEC = "Collective"


inputs = matrix_and_group


class HeldByTheFirst(Function):
    """Keeps the tensor on the first rank; the others return zeros, marked as non-differentiable."""

    TYPES = "R -> P"

    @staticmethod
    def forward(ctx, x, group):
        if dist.get_rank(group) == 0:
            return x.clone()
        nothing = torch.zeros_like(x)
        ctx.mark_non_differentiable(nothing)
        return nothing

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


class FirstStage(Function):
    """Returns a constant on all ranks but the first, marked as non-differentiable."""

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx, x, group):
        if dist.get_rank(group) == 0:
            return 2 * x
        start = torch.full_like(x, 0.5)
        ctx.mark_non_differentiable(start)
        return start

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None
