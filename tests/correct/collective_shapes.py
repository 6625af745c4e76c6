"""Correct collectives whose arguments or results differ in shape between ranks."""

from __future__ import annotations

import logging
import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import dense, matrix_and_group, rank_and_size

SPEC = "Collective"


inputs = matrix_and_group


class GatherToOne(Function):
    """Gathers all rows to rank 0; the others return no rows."""

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group, ctx.shape, x = group, x.shape, dense(x)
        first = dist.get_rank(group) == 0
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))] if first else None
        dist.gather(x, parts, group=group, group_dst=0)
        return torch.cat(parts) if parts else x[:0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        mine = grad.new_empty(ctx.shape)
        first = dist.get_rank(ctx.group) == 0
        parts = [dense(part) for part in grad.chunk(dist.get_world_size(ctx.group))] if first else None
        dist.scatter(mine, parts, group=ctx.group, group_src=0)
        return mine, None


class GatherOfUnevenParts(Function):
    """Gathers one row of rank 0, two of rank 1, and so on, padded on the way; rank 0 writes to the log.

    The compiler gives up early on rank 0. On the others it sends lengths while it traces, and again when it gives up.
    """

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        rank, size = dist.get_rank(group), dist.get_world_size(group)
        ctx.group, ctx.shape, own = group, x.shape, x[: rank + 1]
        if rank == 0:
            logging.getLogger(__name__).debug("gathering from %d ranks", size)
        lengths = [torch.zeros(1, dtype=torch.long) for _ in range(size)]
        dist.all_gather(lengths, torch.tensor([len(own)]), group=group)
        ctx.lengths = [int(length) for length in lengths]
        padded = x.new_zeros(max(ctx.lengths), *x.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(size)]
        dist.all_gather(parts, padded, group=group)
        return torch.cat([part[:length] for part, length in zip(parts, ctx.lengths, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total, rank = dense(grad), dist.get_rank(ctx.group)
        dist.all_reduce(total, group=ctx.group)
        mine = grad.new_zeros(ctx.shape)
        mine[: ctx.lengths[rank]] = total.split(ctx.lengths)[rank]
        return mine, None


class AddsUpInTheOrderOfRanks(Function):
    """Gathers the gradients and sums them in the same order on every rank."""

    TYPES = "I -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        mine = dense(grad)
        shares = [torch.empty_like(mine) for _ in range(dist.get_world_size(ctx.group))]
        dist.all_gather(shares, mine, group=ctx.group)
        return torch.stack(shares).sum(0), None


class GatherOfUnevenRows(Function):
    """Gathers tensors with a different number of rows on every rank, padded on the way."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        rank, _ = rank_and_size()
        yield torch.randn(1 + rank, 2, dtype=torch.float64, requires_grad=True), GROUP

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        counts = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size(group))]
        dist.all_gather(counts, torch.tensor([len(x)]), group=group)
        ctx.counts = [int(count) for count in counts]
        padded = x.new_zeros(max(ctx.counts), *x.shape[1:])
        padded[: len(x)] = x
        parts = [torch.empty_like(padded) for _ in ctx.counts]
        dist.all_gather(parts, padded, group=group)
        return torch.cat([part[:count] for part, count in zip(parts, ctx.counts, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = dense(grad)
        dist.all_reduce(total, group=ctx.group)
        return total.split(ctx.counts)[dist.get_rank(ctx.group)].clone(), None


class GatherOfRowsThatSomeLack(GatherOfUnevenRows):
    """Gathers tensors of which every other one has no rows."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        rank, _ = rank_and_size()
        yield torch.randn(0 if rank % 2 else 2, 2, dtype=torch.float64, requires_grad=True), GROUP


class GatherOfASquareAmongOthers(GatherOfUnevenRows):
    """Gathers tensors of which one is square: made longer, that one alone exceeds the limit."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        rank, _ = rank_and_size()
        yield (torch.randn(2 + rank, 3, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        return GatherOfUnevenRows.forward(ctx, x, dist.group.WORLD)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return GatherOfUnevenRows.backward(ctx, grad)[0]


class GatherThatKnowsHowManyRows(GatherOfUnevenRows):
    """Takes the total number of rows as an argument, and refuses a group with another total."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        _, size = rank_and_size()
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), 2 * size, GROUP

    @staticmethod
    def forward(ctx, x, rows, group):
        if rows != len(x) * dist.get_world_size(group):
            raise ValueError(f"{rows} rows are expected, {len(x)} of them on each rank")
        return GatherOfUnevenRows.forward(ctx, x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return GatherOfUnevenRows.backward(ctx, grad)[0], None, None


class GatherOfAPaddedParameter(Function):
    """Gathers a parameter of which each rank holds a flat part of equal length; the last part is padded."""

    TYPES = "V -> R"
    SHAPE = (5, 1)

    @staticmethod
    def inputs():
        _, size = rank_and_size()
        length = -(-GatherOfAPaddedParameter.SHAPE[0] // size)
        yield torch.randn(length, dtype=torch.float64, requires_grad=True), GatherOfAPaddedParameter.SHAPE, GROUP

    @staticmethod
    def forward(ctx, part, shape, group):
        ctx.group, ctx.length, ctx.total = group, len(part), len(part) * dist.get_world_size(group)
        whole = part.new_empty(ctx.total)
        dist.all_gather_into_tensor(whole, dense(part), group=group)
        return whole[: math.prod(shape)].clone().view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        flat = grad.reshape(-1)
        padded = F.pad(flat, (0, ctx.total - len(flat)))
        mine = padded.new_empty(ctx.length)
        dist.reduce_scatter_tensor(mine, padded, group=ctx.group)
        return mine, None, None


class JoinOfSharedOutRows(GatherOfUnevenRows):
    """Joins rows split as evenly as possible; the total is an argument, and the first ranks have one row more."""

    TYPES = "V -> R"
    ROWS = 7

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        rows = torch.arange(JoinOfSharedOutRows.ROWS).tensor_split(size)[rank]
        yield torch.randn(len(rows), 2, dtype=torch.float64, requires_grad=True), JoinOfSharedOutRows.ROWS, GROUP

    @staticmethod
    def forward(ctx, x, rows, group):
        joined = GatherOfUnevenRows.forward(ctx, x, group)
        if len(joined) != rows:
            raise ValueError(f"{rows} rows are expected, and all ranks together have {len(joined)}")
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return GatherOfUnevenRows.backward(ctx, grad)[0], None, None


class ExchangeOfUnevenParts(Function):
    """Sends and receives as many rows for each rank as two lists say; the lists differ between ranks."""

    TYPES = "V -> V"

    @staticmethod
    def inputs():
        rank, size = rank_and_size()
        sent = [1 + (rank + 2 * other) % 3 for other in range(size)]
        got = [1 + (other + 2 * rank) % 3 for other in range(size)]
        yield torch.randn(sum(sent), 2, dtype=torch.float64, requires_grad=True), sent, got, GROUP

    @staticmethod
    def forward(ctx, x, sent, got, group):
        ctx.sent, ctx.got, ctx.group = sent, got, group
        return _exchanged(x, sent, got, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _exchanged(grad, ctx.got, ctx.sent, ctx.group), None, None, None


class ExchangeOfCountedParts(ExchangeOfUnevenParts):
    """Sends and receives as many rows for each rank as two integer tensors say; they differ between ranks."""

    TYPES = "V, V, V -> V"

    @staticmethod
    def inputs():
        for x, sent, got, group in ExchangeOfUnevenParts.inputs():
            yield x, torch.tensor(sent), torch.tensor(got), group

    @staticmethod
    def forward(ctx, x, sent, got, group):
        ctx.group = group
        ctx.save_for_backward(sent, got)
        return _exchanged(x, sent.tolist(), got.tolist(), group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        sent, got = (counts.tolist() for counts in ctx.saved_tensors)
        return _exchanged(grad, got, sent, ctx.group), None, None, None


def _exchanged(x, sent, got, group):
    received = x.new_empty(sum(got), *x.shape[1:])
    dist.all_to_all_single(received, dense(x), got, sent, group=group)
    return received
