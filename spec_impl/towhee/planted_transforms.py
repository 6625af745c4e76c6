"""Planted bugs: gathers that go wrong in forward mode or under vmap."""

from __future__ import annotations

import torch

from spec_impl.ksuit._by_hand import joined
from spec_impl.towhee.correct import CombinedWithJvp, SeparateForm


class OwnTangentAlone(CombinedWithJvp):
    """This rank's tangent, and zeros for the others.

    Breaks: AllGather.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        parts = [torch.zeros_like(tangent) for _ in range(ctx.args.world_size)]
        parts[ctx.args.local_rank] = tangent
        return torch.cat(parts)


class TangentsAddedUp(SeparateForm):
    """All tangents added up, N times.

    Breaks: AllGather.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        count = ctx.args.world_size
        whole = SeparateForm.apply(tangent, ctx.args)
        return torch.cat([sum(whole.chunk(count))] * count)


class TangentsReversed(SeparateForm):
    """Tangents of the last rank first.

    Breaks: AllGather.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        return torch.cat(SeparateForm.apply(tangent, ctx.args).chunk(ctx.args.world_size)[::-1])


class SamplesJoined(SeparateForm):
    """Joins along the dimension of samples.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor.movedim(in_dims[0], 0), args)[: info.batch_size], 0


class SamplesNotMoved(SeparateForm):
    """Says that samples are last, and leaves them where they were.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor, args), tensor.dim() - 1


class SamplesShuffledAcrossRanks(SeparateForm):
    """Under vmap the rows of the last rank come first.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        whole = SeparateForm.apply(tensor.movedim(in_dims[0], -1), args)
        return torch.cat(whole.chunk(args.world_size)[::-1]), -1


class BatchedWithoutGraph(SeparateForm):
    """Under vmap the graph is cut.

    Breaks: AllGather.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return joined(tensor.movedim(in_dims[0], -1), args), -1


class ScalarSamplesJoined(SeparateForm):
    """Under vmap, samples without a dimension are joined as if the batch were theirs.

    Breaks: AllGather.forward.mismatch
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor.movedim(in_dims[0], -1), args), -1 if tensor.dim() > 1 else 0
