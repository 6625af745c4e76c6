"""Planted bugs: gathers whose gradient is not the sum over ranks."""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from spec_impl.ksuit._by_hand import agree, dense, gathered, rank, size, stack, summed
from spec_impl.ksuit.correct import StackedAllReduce


class LocalSlice(StackedAllReduce):
    """This rank's own gradient, and nobody else's (lightly 1528, torch_xla 5784, SimCLR).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return dense(grads[rank()])


class OwnSlicesAllReduced(StackedAllReduce):
    """Each rank puts its own slice into the sum: gradients of different entries (the first fix for lightly 1528).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = dense(grads[rank()])
        dist.all_reduce(mine)
        return mine


class Mean(StackedAllReduce):
    """The mean over ranks.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads) / size()


class TimesSize(StackedAllReduce):
    """The sum, times the number of ranks; right for one rank (open_clip 616).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads) * size()


class SliceTimesSize(StackedAllReduce):
    """This rank's own gradient times the number of ranks: right if all ranks have the same loss.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return dense(grads[rank()]) * size()


class Largest(StackedAllReduce):
    """The largest over ranks, element by element.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = stack(grads)
        if mine.is_complex():
            return summed(grads)
        dist.all_reduce(mine, dist.ReduceOp.MAX)
        return mine[rank()].clone()


class ReversedRanks(StackedAllReduce):
    """The gradient that belongs to the rank counted from the other end.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads[::-1])


class NextRank(StackedAllReduce):
    """The gradient of the next rank's entry: off by one.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads[1:] + grads[:1])


class OnlyTwoRanks(StackedAllReduce):
    """Own gradient and that of the next rank: right for two ranks.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = stack(grads)
        everyone = [torch.empty_like(mine) for _ in range(size())]
        dist.all_gather(everyone, mine)
        neighbours = {rank(), (rank() + 1) % size()}
        return torch.stack([everyone[s][rank()] for s in sorted(neighbours)]).sum(0)


class EntriesAdded(StackedAllReduce):
    """This rank's gradients of all entries added up: over entries, not over ranks.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return stack(grads).sum(0)


class FirstRankAlone(StackedAllReduce):
    """Reduced to rank 0, which is the only one to have it; the others return their slice.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = stack(grads)
        dist.reduce(total, 0)
        return total[0].clone() if rank() == 0 else dense(grads[rank()])


class LastRankWrong(StackedAllReduce):
    """All ranks are right but the last, which loses its own part.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = summed(grads)
        return total - dense(grads[-1]) if size() > 1 and rank() == size() - 1 else total


class FirstSumKept(StackedAllReduce):
    """Returns the sum of the first call forever.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    sums = {}

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = summed(grads)
        return FirstSumKept.sums.setdefault((total.shape, total.dtype), total)


class SumInHalf(StackedAllReduce):
    """Gradients travel in half precision, whatever they come in.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        if grads[0].is_complex():
            return summed(grads)
        return summed([grad.bfloat16() for grad in grads]).to(grads[0].dtype)


class StridesIgnored(StackedAllReduce):
    """Reads a gradient's memory in order, ignoring its strides (as in pytorch 73515).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed([_as_it_lies(grad) for grad in grads])


def _as_it_lies(x: torch.Tensor) -> torch.Tensor:
    reached = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    if x.is_contiguous() or reached < x.numel():
        return x
    return torch.as_strided(x, (x.numel(),), (1,)).reshape(x.shape)


class LostUnlessContiguous(StackedAllReduce):
    """Sums in a copy if the gradient is not contiguous, and returns the original (as in pytorch 120386).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = summed(grads)
        strided = size() > 1 and not grads[rank()].is_contiguous()
        return dense(grads[rank()]) if strided else total


def of_torch_distributed_nn(x):
    """PyTorch 2.13's own differentiable gather on Gloo: gradients that are not contiguous arrive out of order.

    Breaks: AllGatherGradAutograd.backward.sum
    """
    from torch.distributed.nn.functional import all_gather

    agree(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return tuple(all_gather(x.contiguous()))


def own_entry_put_in(x):
    """Gathers without a graph and puts x in its place: other ranks' losses never reach it.

    Breaks: AllGatherGradAutograd.backward.sum
    """
    entries = gathered(x)
    entries[rank()] = x.clone()
    return tuple(entries)


def graph_cut(x):
    """Gathers without a graph (MoCo's concat_all_gather, vissl 123).

    Breaks: AllGatherGradAutograd.backward.sum
    """
    return tuple(gathered(x))


class GradientsChanged(StackedAllReduce):
    """Adds up in the incoming gradients themselves.

    Breaks: Function.backward.grads-untouched
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        places = [grad if grad.is_contiguous() else dense(grad) for grad in grads]
        for place in places:
            dist.all_reduce(place)
        return places[rank()].clone()


class ViewOfAllGradients(StackedAllReduce):
    """A view of all ranks' gradients: N times the memory (the ksuit form, lightly 1.6).

    Breaks: AllGatherGradAutograd.backward.own-memory
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = stack(grads)
        dist.all_reduce(total)
        return total[rank()]


class ViewOfExactlyTwo(StackedAllReduce):
    """The gradient and a spare row lie in one buffer.

    Breaks: AllGatherGradAutograd.backward.own-memory
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = summed(grads)
        return torch.stack([total, total])[0]
