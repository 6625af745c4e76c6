"""Correct collectives whose inputs have the same shape and different values, or numbers, on every rank."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct import collective as right
from tests.correct._collectives import rank_and_size, summed

SPEC = "Collective"


def inputs():
    rank, _ = rank_and_size()
    generator = torch.Generator().manual_seed(740 + rank)
    yield torch.randn(6, 2, dtype=torch.float64, generator=generator, requires_grad=True), GROUP


class Gather(right.RingGather):
    """Gathers tensors that differ between ranks, as their type says."""

    TYPES = "V -> R"


class Split(right.Split):
    """Returns this rank's rows of a tensor that must be the same on every rank, although each rank draws its own."""

    TYPES = "I -> V"


class RowsOfATable(Function):
    """Adds up the rows of a table, each times its number; every rank is told which rows it holds."""

    TYPES = "V -> I"

    @staticmethod
    def inputs():
        rank, _ = rank_and_size()
        x = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
        yield x, 2 * rank, 2 * rank + 2, GROUP

    @staticmethod
    def forward(ctx, x, first, end, group):
        numbers = torch.arange(first, end, dtype=x.dtype, device=x.device)
        ctx.save_for_backward(numbers)
        return summed((x * numbers).sum(), group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (numbers,) = ctx.saved_tensors
        return grad * numbers, None, None, None
