"""Correct collectives that keep statistics of all ranks in tensors that they change in place."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import summed

SPEC = "Collective"


def inputs():
    generator = torch.Generator().manual_seed(760)
    x = torch.randn(3, 2, dtype=torch.float64, generator=generator, requires_grad=True)
    mean = torch.tensor([0.1, -0.2], dtype=torch.float64)
    yield x, mean, True, GROUP
    yield x, mean, False, GROUP


class CentresByTheRunningMean(Function):
    """Subtracts the mean over all ranks, and moves the running mean, in training; the running mean otherwise."""

    TYPES = "V, I -> V, I"

    @staticmethod
    def forward(ctx, x, mean, training, group):
        ctx.mark_dirty(mean)
        ctx.mark_non_differentiable(mean)
        ctx.training, ctx.group = training, group
        total = summed(torch.cat([x.sum(0), x.new_tensor([float(len(x))])]), group)
        ctx.rows = total[-1].item()
        own = total[:-1] / ctx.rows if training else mean.clone()
        if training:
            mean.mul_(0.9).add_(0.1 * own)
        return x - own, mean

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        total = summed(grad.sum(0), ctx.group)
        return grad - total / ctx.rows if ctx.training else grad.clone(), None, None, None
