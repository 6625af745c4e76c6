"""Correct collectives in which one rank does more than the others."""

from __future__ import annotations

import logging

from torch.autograd import Function

from tests.correct._collectives import matrix_and_group, rank_and_size, summed

SPEC = "Collective"


inputs = matrix_and_group


class SumThatTheFirstRankLogs(Function):
    """Logs the sum on rank 0: only that rank cannot run on tensors without values."""

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = summed(x, group)
        if rank_and_size()[0] == 0:
            logging.getLogger(__name__).debug("the mean is %f", total.mean().item())
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None
