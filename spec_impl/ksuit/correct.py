"""Correct gathers with a gradient summed over ranks, in many styles: none of them may be accused."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from spec_impl.ksuit._by_hand import agree, dense, gathered, rank, size, stack, summed


class StackedAllReduce(Function):
    """Stacks the gradients, all-reduces the stack, and returns a copy of this rank's slice."""

    @staticmethod
    def forward(ctx, x):
        return tuple(gathered(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads)


class ReducedToEachRank(StackedAllReduce):
    """Reduces each entry's gradient to the rank that the entry came from."""

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = [dense(grad) for grad in grads]
        for to, grad in enumerate(mine):
            dist.reduce(grad, to)
        return mine[rank()]


class AllReducedOneByOne(StackedAllReduce):
    """All-reduces the gradient of each entry on its own, in a copy."""

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = [dense(grad) for grad in grads]
        works = [dist.all_reduce(grad, async_op=True) for grad in mine]
        for work in works:
            work.wait()
        return mine[rank()]


class AllToAllThenSum(StackedAllReduce):
    """Sends every rank the gradient of its entry by all-to-all, and sums what arrives."""

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        outgoing = stack(grads)
        incoming = torch.empty_like(outgoing)
        if outgoing.numel():
            dist.all_to_all_single(incoming, outgoing)
        return incoming.sum(0)


class ReduceScattered(StackedAllReduce):
    """Sums and distributes the gradients by a single reduce_scatter."""

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = torch.empty(grads[0].shape, dtype=grads[0].dtype)
        if mine.numel():
            dist.reduce_scatter(mine, [dense(grad) for grad in grads])
        return mine


class AveragedTimesSize(StackedAllReduce):
    """Averages over ranks, then multiplies by the number of ranks."""

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed([grad / size() for grad in grads]) * size()


class GradientsGathered(StackedAllReduce):
    """Gathers the gradients of all ranks, and sums those of this rank's entry locally."""

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = stack(grads)
        everyone = [torch.empty_like(mine) for _ in range(size())]
        dist.all_gather(everyone, mine)
        return torch.stack([theirs[rank()] for theirs in everyone]).sum(0)


class GatheredIntoOneTensor(StackedAllReduce):
    """Gathers into one buffer, and returns a copy of each part."""

    @staticmethod
    def forward(ctx, x):
        agree(x)
        whole = torch.empty((size() * x.numel(),), dtype=x.dtype)
        if x.numel():
            dist.all_gather_single(whole, dense(x).view(-1))
        return tuple(part.clone() for part in whole.view(size(), *x.shape).unbind(0))


class BroadcastByEach(StackedAllReduce):
    """Broadcasts the tensor of one rank after the other."""

    @staticmethod
    def forward(ctx, x):
        agree(x)
        entries = [dense(x) for _ in range(size())]
        for source, entry in enumerate(entries):
            dist.broadcast(entry, source)
        return tuple(entries)


class PointToPoint(Function):
    """Exchanges tensors by send and receive, in forward and in backward."""

    @staticmethod
    def forward(ctx, x):
        agree(x)
        return tuple(PointToPoint._exchanged([dense(x)] * size()))

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return torch.stack(PointToPoint._exchanged([dense(grad) for grad in grads])).sum(0)

    @staticmethod
    def _exchanged(outgoing):
        incoming = [torch.empty_like(part) for part in outgoing]
        incoming[rank()].copy_(outgoing[rank()])
        others = [other for other in range(size()) if other != rank()]
        works = [dist.isend(outgoing[other], other) for other in others]
        works += [dist.irecv(incoming[other], other) for other in others]
        for work in works:
            work.wait()
        return incoming


class ObjectsGathered(StackedAllReduce):
    """Gathers pickled tensors by all_gather_object: slow, and correct."""

    @staticmethod
    def forward(ctx, x):
        entries = [None] * size()
        dist.all_gather_object(entries, dense(x))
        if any(entry.shape != x.shape or entry.dtype != x.dtype for entry in entries):
            raise ValueError("shapes or dtypes differ")
        return tuple(entry.clone() for entry in entries)


class VjpForBackward(Function):
    """Defines vjp instead of backward."""

    @staticmethod
    def forward(ctx, x):
        return tuple(gathered(x))

    @staticmethod
    @once_differentiable
    def vjp(ctx, *grads):
        return summed(grads)


class GradientsNotMaterialized(Function):
    """Asks for None for unused entries, and handles it."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.kind = x.shape, x.dtype
        return tuple(gathered(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        shape, dtype = ctx.kind
        return summed([torch.zeros(shape, dtype=dtype) if grad is None else grad for grad in grads])


class WithGroup(Function):
    """Takes a group as a second argument, as later copies of this class do."""

    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        return tuple(gathered(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads), None


class CombinedWithJvp(StackedAllReduce):
    """Uses the combined form, with a jvp."""

    @staticmethod
    def jvp(ctx, tangent):
        return tuple(gathered(tangent))


class _SumDifferentiable(Function):
    """Sums over ranks; can be differentiated again."""

    @staticmethod
    def forward(ctx, *grads):
        return summed(grads)

    @staticmethod
    def backward(ctx, grad):
        return DifferentiableTwice.apply(grad)


class DifferentiableTwice(Function):
    """Calls a second Function in backward, whose own backward is the gather."""

    @staticmethod
    def forward(ctx, x):
        return tuple(gathered(x))

    @staticmethod
    def backward(ctx, *grads):
        return _SumDifferentiable.apply(*grads)


class SeparateForm(Function):
    """Defines setup_context, jvp and vmap. Adding zeros like x under vmap makes every gradient a batched one."""

    @staticmethod
    def forward(x):
        return tuple(gathered(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        zeros = torch.zeros_like(inputs[0])
        ctx.save_for_backward(zeros)
        ctx.save_for_forward(zeros)

    @staticmethod
    def backward(ctx, *grads):
        (zeros,) = ctx.saved_tensors
        return _SeparateSum.apply(*(grad + zeros for grad in grads))

    @staticmethod
    def jvp(ctx, tangent):
        return SeparateForm.apply(tangent)

    @staticmethod
    def vmap(info, in_dims, x):
        entries = SeparateForm.apply(x)
        return entries, (in_dims[0],) * len(entries)


class _SeparateSum(Function):
    @staticmethod
    def forward(*grads):
        return summed(grads)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return SeparateForm.apply(grad)

    @staticmethod
    def jvp(ctx, *tangents):
        return _SeparateSum.apply(*tangents)

    @staticmethod
    def vmap(info, in_dims, *grads):
        pairs = zip(grads, in_dims, strict=True)
        first = [g.expand(info.batch_size, *g.shape) if d is None else g.movedim(d, 0) for g, d in pairs]
        return _SeparateSum.apply(*first), 0


class SeparateWithoutTransforms(Function):
    """Uses the separate form, without jvp and vmap."""

    @staticmethod
    def forward(x):
        return tuple(gathered(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads)


class _Stacked(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.stack(gathered(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad.unbind(0))


def unstacked(x):
    """Gathers by a Function that stacks, then splits the result."""
    return tuple(entry.clone() for entry in _Stacked.apply(x))


def with_own_entry_attached(x):
    """Applies a Function inside a plain callable."""
    return tuple(entry * 1 if entry.is_floating_point() else entry for entry in StackedAllReduce.apply(x))
