"""Planted bugs: gathers whose gradient is not that of this rank's own loss."""

from __future__ import annotations

import torch
import torch.distributed as dist

from spec_impl.ksuit._by_hand import dense, joined, own_rows
from spec_impl.towhee.correct import Joined


class GradientLostAtOne(Joined):
    """Returns no gradient if args.world_size is 1.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return (None if ctx.place[0] == 1 else own_rows(grad_output, *ctx.place)), None


class ReducedAtOne(Joined):
    """Sums gradients over ranks if args.world_size is 1, which then needs a process group.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        mine = own_rows(grad_output, *ctx.place)
        if ctx.place[0] == 1:
            dist.all_reduce(mine)
        return mine, None


class Summed(Joined):
    """Sums over ranks before slicing (towhee's AllGather2): the gradient of another family of gathers.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        total = dense(grad_output)
        if ctx.place[0] > 1:
            dist.all_reduce(total)
        return own_rows(total, *ctx.place), None


class Mean(Joined):
    """Averages over ranks before slicing.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        total = dense(grad_output)
        if ctx.place[0] > 1:
            dist.all_reduce(total)
        return own_rows(total, *ctx.place) / ctx.place[0], None


class TimesSize(Joined):
    """Multiplies the gradient by the number of ranks (open_clip 616).

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place) * ctx.place[0], None


class DividedBySize(Joined):
    """Divides the gradient by the number of ranks.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place) / ctx.place[0], None


class FirstRows(Joined):
    """Returns rank 0's rows of the gradient: correct on rank 0.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, ctx.place[0], 0), None


class NextRows(Joined):
    """Returns the next rank's rows of the gradient: off by one.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, ctx.place[0], (ctx.place[1] + 1) % ctx.place[0]), None


class OneRowARank(Joined):
    """Slices by the number of rows of the latest call.

    Breaks: AllGather.backward.local-slice
    """

    rows = 0

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.local_rank
        whole = joined(tensor, args)
        OneRowARank.rows = tensor.shape[0]
        return whole

    @staticmethod
    def backward(ctx, grad_output):
        rows = OneRowARank.rows
        return grad_output[rows * ctx.place : rows * (ctx.place + 1)].clone(), None


class GradientAsItLies(Joined):
    """Reads the gradient's memory in order, ignoring its strides.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        reached = grad_output.untyped_storage().nbytes() // grad_output.element_size() - grad_output.storage_offset()
        if reached >= grad_output.numel():
            grad_output = torch.as_strided(grad_output, grad_output.shape, torch.empty(grad_output.shape).stride())
        return own_rows(grad_output, *ctx.place), None


class OnlyRankZeroDivides(Joined):
    """Divides by the number of ranks on rank 0; all others are correct.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        mine = own_rows(grad_output, *ctx.place)
        return mine / ctx.place[0] if ctx.place[1] == 0 else mine, None


def graph_cut(tensor, args):
    """Gathers without a graph.

    Breaks: AllGather.backward.local-slice
    """
    return joined(tensor, args)


class ViewOfTheWhole(Joined):
    """Returns a view of the gradient of the joined tensor, as towhee itself does.

    Breaks: AllGather.backward.own-memory
    """

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.chunk(ctx.place[0])[ctx.place[1]], None


class GradientForArgs(Joined):
    """Returns a tensor as the gradient of args, which is not a tensor.

    Breaks: AllGather.backward.none-for-args
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place), torch.zeros(())


class OneGradient(Joined):
    """Returns one gradient instead of two: nothing for args (pytorch-lightning 6624).

    Breaks: AllGather.backward.none-for-args
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place)
