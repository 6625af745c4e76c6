"""Planted bugs: gathers whose gradient is not the sum over ranks."""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from spec_impl.ksuit._by_hand import agree, dense, gathered, rank, size, stack, summed
from spec_impl.ksuit.correct import StackedAllReduce


class LocalSlice(StackedAllReduce):
    """Returns this rank's own gradient without the sum over ranks (lightly 1528, torch_xla 5784, SimCLR).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return dense(grads[rank()])


class OwnSlicesAllReduced(StackedAllReduce):
    """All-reduces only this rank's slice, so gradients of different entries are summed (the first fix for lightly
    1528).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = dense(grads[rank()])
        dist.all_reduce(mine)
        return mine


class Mean(StackedAllReduce):
    """Averages gradients over ranks instead of summing them.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads) / size()


class TimesSize(StackedAllReduce):
    """Multiplies the sum by the number of ranks; correct for one rank (open_clip 616).

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads) * size()


class SliceTimesSize(StackedAllReduce):
    """Multiplies this rank's own gradient by the number of ranks: correct if all ranks have the same loss.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return dense(grads[rank()]) * size()


class Largest(StackedAllReduce):
    """Takes the elementwise maximum over ranks instead of the sum.

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
    """Returns the gradient of the entry at the mirrored rank.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads[::-1])


class NextRank(StackedAllReduce):
    """Returns the gradient of the next rank's entry: off by one.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads[1:] + grads[:1])


class OnlyTwoRanks(StackedAllReduce):
    """Sums this rank's gradient and the next rank's only: correct for two ranks.

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
    """Sums this rank's gradients over entries instead of over ranks.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return stack(grads).sum(0)


class FirstRankAlone(StackedAllReduce):
    """Reduces to rank 0 only; the other ranks return their own slice.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = stack(grads)
        dist.reduce(total, 0)
        return total[0].clone() if rank() == 0 else dense(grads[rank()])


class LastRankWrong(StackedAllReduce):
    """Drops the last rank's own contribution on the last rank; the other ranks are correct.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = summed(grads)
        return total - dense(grads[-1]) if size() > 1 and rank() == size() - 1 else total


class FirstSumKept(StackedAllReduce):
    """Caches the sum of the first call, and returns it in every later one.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    sums = {}

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = summed(grads)
        return FirstSumKept.sums.setdefault((total.shape, total.dtype), total)


class SumInHalf(StackedAllReduce):
    """Sums gradients in bfloat16, whatever their dtype.

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
    """Uses PyTorch 2.13's own differentiable gather on Gloo: non-contiguous gradients arrive out of order.

    Breaks: AllGatherGradAutograd.backward.sum
    """
    from torch.distributed.nn.functional import all_gather

    agree(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return tuple(all_gather(x.contiguous()))


def own_entry_put_in(x):
    """Gathers without a graph and inserts x as its own entry: the losses of other ranks never reach it.

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
    """All-reduces the incoming gradients in place.

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
    """Returns a view of all ranks' gradients: keeps N times the memory alive (the ksuit form, lightly 1.6).

    Breaks: AllGatherGradAutograd.backward.own-memory
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = stack(grads)
        dist.all_reduce(total)
        return total[rank()]


class ViewOfExactlyTwo(StackedAllReduce):
    """Returns a view of a buffer that is twice as large.

    Breaks: AllGatherGradAutograd.backward.own-memory
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        total = summed(grads)
        return torch.stack([total, total])[0]
