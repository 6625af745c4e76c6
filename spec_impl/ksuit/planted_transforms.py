"""Planted bugs: gathers that go wrong in forward mode or under vmap."""

from __future__ import annotations

import torch

from spec_impl.ksuit._by_hand import gathered, rank, size, summed
from spec_impl.ksuit.correct import CombinedWithJvp, SeparateForm, _SeparateSum


class OwnTangentAlone(CombinedWithJvp):
    """Returns this rank's tangent, and zeros for the other entries.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tuple(tangent.clone() if s == rank() else torch.zeros_like(tangent) for s in range(size()))


class OwnTangentEverywhere(CombinedWithJvp):
    """Returns this rank's tangent for every entry.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tuple(tangent.clone() for _ in range(size()))


class TangentsAddedUp(SeparateForm):
    """Sums all tangents, as if they were gradients.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return tuple(torch.stack(gathered(tangent)).sum(0) for _ in range(size()))


class TangentsReversed(SeparateForm):
    """Returns the tangents in reverse order of ranks.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return SeparateForm.apply(tangent)[::-1]


class TangentsLost(CombinedWithJvp):
    """Returns None as the tangent of every entry.

    Breaks: AllGatherGradAutograd.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent):
        return (None,) * size()


class BatchNotMoved(SeparateForm):
    """Declares out_dim 0, but leaves the batch dimension where it was.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return SeparateForm.apply(x), (0,) * size()


class BatchSaidToBeLast(SeparateForm):
    """Moves the batch dimension to the front, but declares where it was before.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return SeparateForm.apply(x.movedim(in_dims[0], 0)), (in_dims[0],) * size()


class FirstSampleForAll(SeparateForm):
    """Gathers the first sample for all samples.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        first = x.movedim(in_dims[0], 0)[:1].expand(info.batch_size, *x.movedim(in_dims[0], 0).shape[1:])
        return SeparateForm.apply(first), (0,) * size()


class BatchLocal(SeparateForm):
    """Returns this rank's own tensor for every entry under vmap.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return tuple(x.clone() for _ in range(size())), (in_dims[0],) * size()


class BatchedWithoutGraph(SeparateForm):
    """Gathers without a graph under vmap.

    Breaks: AllGatherGradAutograd.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return tuple(gathered(x)), (in_dims[0],) * size()


class LastEntryUnbatched(SeparateForm):
    """Declares that the last entry is not batched.

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
    """Exchanges gradients as they are in backward: one rank sends a batched one while another does not.

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
    """Ignores the losses of other ranks in forward mode over backward.

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
    """Ignores the losses of other ranks in a second backward pass.

    Breaks: AllGatherGradAutograd.backward.twice
    """

    @staticmethod
    def backward(ctx, *grads):
        return _OnlyMyself.apply(*grads)
