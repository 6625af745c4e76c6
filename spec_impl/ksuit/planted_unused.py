"""Planted bugs: gathers that go wrong if a rank has no gradient, or is the only one."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from spec_impl.ksuit._by_hand import dense, gathered, rank, size, stack, summed
from spec_impl.ksuit.correct import StackedAllReduce


class MissingNotHandled(StackedAllReduce):
    """Asks for None instead of zeros, but cannot handle it.

    Breaks: AllGatherGradAutograd.backward.unused
    """

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return tuple(gathered(x))


class MissingCountAsOnes(MissingNotHandled):
    """Replaces missing gradients by ones.

    Breaks: AllGatherGradAutograd.backward.unused
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        like = next((grad for grad in grads if grad is not None), torch.zeros(4, dtype=torch.float64))
        return summed([torch.ones_like(like) if grad is None else grad for grad in grads])


class NothingToSayNothingSent(MissingNotHandled):
    """Skips the collective on a rank without any gradient: the others wait for it.

    Breaks: AllGatherGradAutograd.backward.unused
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        like = next((grad for grad in grads if grad is not None), None)
        if like is None:
            return None
        return summed([torch.zeros_like(like) if grad is None else grad for grad in grads])


class ZerosNotSent(StackedAllReduce):
    """Skips the collective on a rank whose gradients are all zero: the others wait for it.

    Breaks: AllGatherGradAutograd.backward.unused
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        mine = stack(grads)
        return summed(grads) if mine.any() else mine[rank()].clone()


class OnlyUsedReduced(MissingNotHandled):
    """Reduces only the entries that this rank used: ranks that used others wait forever.

    Breaks: AllGatherGradAutograd.backward.unused
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        result = None
        for to, grad in enumerate(grads):
            if grad is not None:
                mine = dense(grad)
                dist.reduce(mine, to)
                result = mine if to == rank() else result
        return result


class NothingAtOne(StackedAllReduce):
    """Returns None with one rank.

    Breaks: AllGatherGradAutograd.backward.one-rank
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return None if size() == 1 else summed(grads)


class OthersAndOwnAtOne(StackedAllReduce):
    """Adds its own gradient to the sum over the others; with one rank it counts twice.

    Breaks: AllGatherGradAutograd.backward.one-rank
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return 2 * dense(grads[0]) if size() == 1 else summed(grads)


class _WithAnchor(Function):
    @staticmethod
    def forward(ctx, x, anchor):
        return tuple(gathered(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(grads), None


def always_in_the_graph(x):
    """Passes a second input that requires grad, so that every backward pass sums over ranks.

    Breaks: AllGatherGradAutograd.backward.no-grad
    """
    return _WithAnchor.apply(x, torch.zeros((), requires_grad=True))


def makes_x_want_a_gradient(x):
    """Sets requires_grad on x itself.

    Breaks: AllGatherGradAutograd.backward.no-grad
    """
    leaf = x.is_leaf and x.is_floating_point()
    return StackedAllReduce.apply(x.requires_grad_() if leaf else x)


def graph_switched_on(x):
    """Builds a graph even under no_grad.

    Breaks: AllGatherGradAutograd.backward.no-grad
    """
    with torch.enable_grad():
        return StackedAllReduce.apply(x)
