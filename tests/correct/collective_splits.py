"""Correct collectives that split rows by counts for each rank, of which one rank has none."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import dealt, rank_and_size

SPEC = "Collective"


def _count(sender, receiver):
    """Return how many rows one rank sends another; the first rank sends none."""
    return 0 if sender == 0 else (sender + 2 * receiver) % 3 + 1


def _sent():
    rank, size = rank_and_size()
    return [_count(rank, other) for other in range(size)]


def _received():
    rank, size = rank_and_size()
    return [_count(other, rank) for other in range(size)]


class ByLists(Function):
    """Takes lists of row counts; PyTorch itself refuses wrong ones before anything is sent."""

    TYPES = "V -> V"

    @staticmethod
    def inputs():
        sent = _sent()
        yield torch.randn(sum(sent), 2, dtype=torch.float64, requires_grad=True), sent, _received(), GROUP

    @staticmethod
    def forward(ctx, x, sent, received, group):
        ctx.sent, ctx.received, ctx.group = sent, received, group
        return dealt(x, sent, received, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return dealt(grad, ctx.received, ctx.sent, ctx.group), None, None, None


class ByCounts(Function):
    """Exchanges row counts first, given in a tensor that on some ranks is as long as there are rows."""

    TYPES = "V, V -> V"

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        sent = torch.tensor([1] * size if rank == 0 else [int(other == 0) for other in range(size)])
        yield torch.randn(int(sent.sum()), 2, dtype=torch.float64, requires_grad=True), sent, GROUP

    @staticmethod
    def forward(ctx, x, sent, group):
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent.contiguous(), group=group)
        ctx.sent, ctx.received, ctx.group = sent.tolist(), received.tolist(), group
        return dealt(x, ctx.sent, ctx.received, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return dealt(grad, ctx.received, ctx.sent, ctx.group), None, None
