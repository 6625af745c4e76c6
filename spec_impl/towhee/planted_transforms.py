"""Planted bugs: gathers that go wrong in forward mode or under vmap."""

from __future__ import annotations

import torch

from spec_impl.ksuit._by_hand import joined
from spec_impl.towhee.correct import CombinedWithJvp, SeparateForm


class OwnTangentAlone(CombinedWithJvp):
    """Joins zeros in place of the other ranks' tangents.

    Breaks: AllGather.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        parts = [torch.zeros_like(tangent) for _ in range(ctx.args.world_size)]
        parts[ctx.args.local_rank] = tangent
        return torch.cat(parts)


class TangentsAddedUp(SeparateForm):
    """Sums all tangents, and joins N copies of the sum.

    Breaks: AllGather.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        count = ctx.args.world_size
        whole = SeparateForm.apply(tangent, ctx.args)
        return torch.cat([sum(whole.chunk(count))] * count)


class TangentsReversed(SeparateForm):
    """Joins the tangents in reverse order of ranks.

    Breaks: AllGather.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        return torch.cat(SeparateForm.apply(tangent, ctx.args).chunk(ctx.args.world_size)[::-1])


class SamplesJoined(SeparateForm):
    """Joins along the batch dimension in vmap.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor.movedim(in_dims[0], 0), args)[: info.batch_size], 0


class SamplesNotMoved(SeparateForm):
    """Declares that the batch dimension is last, but leaves it where it was.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor, args), tensor.dim() - 1


class SamplesShuffledAcrossRanks(SeparateForm):
    """Joins in reverse order of ranks under vmap.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        whole = SeparateForm.apply(tensor.movedim(in_dims[0], -1), args)
        return torch.cat(whole.chunk(args.world_size)[::-1]), -1


class BatchedWithoutGraph(SeparateForm):
    """Gathers without a graph under vmap.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return joined(tensor.movedim(in_dims[0], -1), args), -1


class ScalarSamplesJoined(SeparateForm):
    """Joins scalar samples along the batch dimension under vmap instead of refusing them.

    Breaks: AllGather.forward.mismatch
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor.movedim(in_dims[0], -1), args), -1 if tensor.dim() > 1 else 0
