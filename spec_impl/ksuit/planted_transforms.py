"""Planted bugs: gathers that go wrong in forward mode or under vmap."""

from __future__ import annotations

import torch

from spec_impl.ksuit._by_hand import gathered, rank, size, summed
from spec_impl.ksuit.correct import CombinedWithJvp, SeparateForm, _SeparateSum


class OwnTangentAlone(CombinedWithJvp):
    """This rank's tangent, and zeros for the others.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tuple(tangent.clone() if s == rank() else torch.zeros_like(tangent) for s in range(size()))


class OwnTangentEverywhere(CombinedWithJvp):
    """This rank's tangent in every place.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tuple(tangent.clone() for _ in range(size()))


class TangentsAddedUp(SeparateForm):
    """The sum of all tangents, as if it were a gradient.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tuple(torch.stack(gathered(tangent)).sum(0) for _ in range(size()))


class TangentsReversed(SeparateForm):
    """Tangents from the last rank to the first.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return SeparateForm.apply(tangent)[::-1]


class TangentsLost(CombinedWithJvp):
    """None for every entry.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return (None,) * size()


class BatchNotMoved(SeparateForm):
    """Says that the samples are in front, and leaves them where they were.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return SeparateForm.apply(x), (0,) * size()


class BatchSaidToBeLast(SeparateForm):
    """Moves the samples to the front, and says where they were before.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return SeparateForm.apply(x.movedim(in_dims[0], 0)), (in_dims[0],) * size()


class FirstSampleForAll(SeparateForm):
    """Gathers one sample for all.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        first = x.movedim(in_dims[0], 0)[:1].expand(info.batch_size, *x.movedim(in_dims[0], 0).shape[1:])
        return SeparateForm.apply(first), (0,) * size()


class BatchLocal(SeparateForm):
    """Under vmap every entry is this rank's own.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return tuple(x.clone() for _ in range(size())), (in_dims[0],) * size()


class BatchedWithoutGraph(SeparateForm):
    """Under vmap the graph is cut.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return tuple(gathered(x)), (in_dims[0],) * size()


class LastEntryUnbatched(SeparateForm):
    """Says that the last entry is the same for all samples.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        entries = SeparateForm.apply(x.movedim(in_dims[0], 0))
        return entries, (*(0,) * (size() - 1), None)


class RuleLeftToPyTorch(SeparateForm):
    """Sets generate_vmap_rule, which does not work with collectives.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    generate_vmap_rule = True
    vmap = torch.autograd.Function.vmap


class GradientsAsTheyCome(SeparateForm):
    """backward exchanges its gradients as they are: one for each sample on one rank, one for all on another.

    Breaks: AllGatherGradAutograd.vmap.some-ranks
    """

    @staticmethod
    def backward(ctx, *grads):
        return _SeparateSum.apply(*grads)


class _OwnTangents(_SeparateSum):
    @staticmethod
    def jvp(ctx, *tangents):
        return tangents[rank()].clone()


class TangentOfTheGradientLocal(SeparateForm):
    """In forward mode through backward, the other ranks' losses are ignored.

    Breaks: AllGatherGradAutograd.backward.twice
    """

    @staticmethod
    def backward(ctx, *grads):
        (zeros,) = ctx.saved_tensors
        return _OwnTangents.apply(*(grad + zeros for grad in grads))


class _OnlyMyself(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *grads):
        return summed(grads)

    @staticmethod
    def backward(ctx, grad):
        return tuple(grad.clone() if s == rank() else torch.zeros_like(grad) for s in range(size()))


class SecondDerivativeLocal(CombinedWithJvp):
    """In a second backward pass, each rank counts only its own loss.

    Breaks: AllGatherGradAutograd.backward.twice
    """

    @staticmethod
    def backward(ctx, *grads):
        return _OnlyMyself.apply(*grads)
