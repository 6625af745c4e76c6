"""Planted bugs: gathers whose result is not every rank's tensor on every rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from spec_impl.ksuit._by_hand import agree, dense, gathered, rank, size, summed
from spec_impl.ksuit.correct import StackedAllReduce


def a_list(x):
    """Returns a list instead of a tuple.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """
    return list(StackedAllReduce.apply(x))


class FromTheLastRank(StackedAllReduce):
    """Returns the entries in reverse order of ranks, and their gradients too.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        return tuple(gathered(x)[::-1])

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads[::-1])


class OwnFirst(StackedAllReduce):
    """Puts this rank's own tensor first, then the others: correct on rank 0.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        return entries[rank()], *entries[: rank()], *entries[rank() + 1 :]

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        own, *others = grads
        return summed([*others[: rank()], own, *others[rank() :]])


class OneBufferForAll(StackedAllReduce):
    """Returns N views of one buffer, so every entry is the one that arrived last.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        place = torch.empty(x.shape, dtype=x.dtype)
        for entry in gathered(x):
            place.copy_(entry)
        return tuple(place.view_as(place) for _ in range(size()))


class OrderOfArrival(StackedAllReduce):
    """Returns entries in the order of arrival: correct until a rank is late.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        agree(x)
        outgoing, entries = dense(x), [dense(x) for _ in range(size())]
        others = [other for other in range(size()) if other != rank()]
        works = [dist.isend(outgoing, other) for other in others] if x.numel() else []
        for other in others if x.numel() else []:
            dist.recv(entries[other])
        for work in works:
            work.wait()
        dist.barrier()
        return tuple(entries)


class ThroughFloat(StackedAllReduce):
    """Converts everything to single precision on the way.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        agree(x)
        kind = torch.complex64 if x.is_complex() else torch.float32
        return tuple(entry.to(x.dtype) for entry in gathered(x.to(kind)))


class ZerosAddedUp(StackedAllReduce):
    """Writes its row into a matrix of zeros and all-reduces that: the sign of zero is lost.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        agree(x)
        rows = torch.zeros((size(), *x.shape), dtype=x.dtype)
        rows[rank()] = x.detach()
        dist.all_reduce(rows)
        return tuple((row + 0).to(x.dtype) for row in rows)


class NumbersOnly(StackedAllReduce):
    """Replaces NaN and infinity by finite numbers.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        return tuple(torch.nan_to_num(entry) if entry.is_floating_point() else entry for entry in gathered(x))


class LastRankBlind(StackedAllReduce):
    """Returns this rank's own tensor for every entry, on the last rank.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        return tuple(dense(x) for _ in entries) if rank() == size() - 1 else tuple(entries)


class FirstMillionBytes(StackedAllReduce):
    """Drops elements that do not fit into a buffer of fixed size.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        for entry in entries:
            entry.view(-1)[65_536:] = 0
        return tuple(entries)


class FirstCallKept(StackedAllReduce):
    """Caches the first result for each shape, and returns it in every later call.

    Breaks: AllGatherGradAutograd.forward.every-rank
    """

    kept = {}

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        kept = FirstCallKept.kept.setdefault((x.shape, x.dtype), entries)
        return tuple(entry.clone() for entry in kept)


class HalfBecomesFloat(StackedAllReduce):
    """Returns single precision for half precision.

    Breaks: AllGatherGradAutograd.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        half = x.dtype in {torch.float16, torch.bfloat16}
        return tuple(entry.float() if half else entry for entry in gathered(x))


class BoolBecomesByte(StackedAllReduce):
    """Gathers bool as bytes, and does not convert back.

    Breaks: AllGatherGradAutograd.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return tuple(gathered(x.byte() if x.dtype == torch.bool else x))


class RealPartOnly(StackedAllReduce):
    """Drops the imaginary part of complex numbers.

    Breaks: AllGatherGradAutograd.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return tuple(gathered(x.real if x.is_complex() else x))


class ScalarBecomesVector(StackedAllReduce):
    """Adds a dimension to a tensor that has none.

    Breaks: AllGatherGradAutograd.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return tuple(gathered(x.reshape(1) if x.dim() == 0 else x))


class EmptyRefused(StackedAllReduce):
    """Raises an error for a tensor without elements.

    Breaks: AllGatherGradAutograd.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        if x.numel() == 0:
            raise ValueError("nothing to gather")
        return tuple(entries)


class ManyDimensionsFlattened(StackedAllReduce):
    """Squeezes tensors of more than four dimensions: dimensions of size 1 are lost.

    Breaks: AllGatherGradAutograd.forward.meta
    """

    @staticmethod
    def forward(ctx, x):
        return tuple(entry.squeeze() if x.dim() > 4 else entry for entry in gathered(x))


class StridesIgnored(StackedAllReduce):
    """Sends the memory of x in order, ignoring its strides (pytorch 73515).

    Breaks: AllGatherGradAutograd.forward.any-layout
    """

    @staticmethod
    def forward(ctx, x):
        agree(x)
        reached = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
        lying = torch.as_strided(x, (x.numel(),), (1,)).reshape(x.shape) if reached >= x.numel() else x
        return tuple(gathered(lying.detach()))


class OrderOfMemory(StackedAllReduce):
    """Sends in memory order and unpacks by its own strides: correct if all ranks have the same strides.

    Breaks: AllGatherGradAutograd.forward.any-layout
    """

    @staticmethod
    def forward(ctx, x):
        agree(x)
        order = sorted(range(x.dim()), key=lambda dim: -x.stride(dim))
        back = [order.index(dim) for dim in range(x.dim())]
        sizes = [x.shape[dim] for dim in order]
        flat = gathered(x.permute(order).reshape(-1))
        return tuple(dense(entry.view(sizes).permute(back)) for entry in flat)


class StridedRefused(StackedAllReduce):
    """Raises an error on every rank if the tensor is not contiguous.

    Breaks: AllGatherGradAutograd.forward.any-layout
    """

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        if not x.is_contiguous():
            raise ValueError("Tensors must be contiguous")
        return tuple(entries)


class OwnEntryIsX(StackedAllReduce):
    """Returns x itself as its own entry, which then requires grad under no_grad too.

    Breaks: AllGatherGradAutograd.forward.own-memory
    """

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        entries[rank()] = x.view_as(x)
        return tuple(entries)


class ViewsOfOneBuffer(StackedAllReduce):
    """Returns entries that are parts of one buffer: keeping one alive keeps all.

    Breaks: AllGatherGradAutograd.forward.own-memory
    """

    @staticmethod
    def forward(ctx, x):
        return torch.stack(gathered(x)).unbind(0)


class BuffersUsedAgain(StackedAllReduce):
    """Reuses its buffers: a second call overwrites what the first one returned.

    Breaks: AllGatherGradAutograd.forward.own-memory
    """

    buffers = {}

    @staticmethod
    def forward(ctx, x):
        entries = gathered(x)
        kept = BuffersUsedAgain.buffers.setdefault((x.shape, x.dtype), entries)
        for place, entry in zip(kept, entries, strict=True):
            place.copy_(entry)
        return tuple(place.view_as(place) for place in kept)


class Unchecked(StackedAllReduce):
    """Gathers without comparing shapes and dtypes between ranks, as most implementations do.

    Breaks: AllGatherGradAutograd.forward.mismatch
    """

    @staticmethod
    def forward(ctx, x):
        entries = [torch.empty(x.shape, dtype=x.dtype) for _ in range(size())]
        dist.all_gather(entries, dense(x))
        return tuple(entries)


class ElementsCounted(StackedAllReduce):
    """Compares only the number of elements between ranks.

    Breaks: AllGatherGradAutograd.forward.mismatch
    """

    @staticmethod
    def forward(ctx, x):
        agree(x.detach().reshape(-1).float().abs())
        entries = [torch.empty(x.shape) for _ in range(size())]
        if x.is_complex():
            return tuple(gathered(x))
        dist.all_gather(entries, dense(x).float())
        return tuple(entry.to(x.dtype) for entry in entries) if x.dtype is not torch.float64 else tuple(gathered(x))


class UnclearError(StackedAllReduce):
    """Raises on every rank, with a message that does not say what differs.

    Breaks: AllGatherGradAutograd.forward.mismatch
    """

    @staticmethod
    def forward(ctx, x):
        try:
            return tuple(gathered(x))
        except ValueError:
            raise RuntimeError("gather failed") from None


class OnlyFirstRankRaises(StackedAllReduce):
    """Raises on rank 0 only; the other ranks wait for it.

    Breaks: AllGatherGradAutograd.forward.mismatch
    """

    @staticmethod
    def forward(ctx, x):
        try:
            return tuple(gathered(x))
        except ValueError:
            if rank() == 0:
                raise
            dist.barrier()
            return tuple(dense(x) for _ in range(size()))
