"""Correct gathers that join, with the gradient of this rank's own loss, in many styles: none may be accused."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function

from spec_impl.ksuit._by_hand import agree, check, dense, gathered, joined, own_rows, rank, size


class Joined(Function):
    """Joins the tensors of all ranks, and slices the gradient: as documented."""

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return joined(tensor, args)

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place), None


class RowsCounted(Joined):
    """Counts its rows in forward, as towhee does."""

    @staticmethod
    def forward(ctx, tensor, args):
        whole = joined(tensor, args)
        ctx.rows, ctx.place = tensor.shape[0], args.local_rank
        return whole

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.narrow(0, ctx.rows * ctx.place, ctx.rows).clone(), None


class OneBuffer(Joined):
    """Gathers straight into the joined tensor by all_gather_single."""

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        if args.world_size == 1:
            return dense(tensor)
        check(args)
        agree(tensor)
        if tensor.dim() == 0:
            raise ValueError("a tensor without dimensions cannot be joined")
        whole = tensor.new_empty((size() * tensor.shape[0], *tensor.shape[1:]))
        if tensor.numel():
            dist.all_gather_single(whole, dense(tensor))
        return whole


class Chunked(Joined):
    """Selects this rank's chunk of the gradient by an index."""

    @staticmethod
    def backward(ctx, grad_output):
        world_size, place = ctx.place
        rows = torch.arange(grad_output.shape[0] // world_size) + grad_output.shape[0] // world_size * place
        return grad_output.index_select(0, rows), None


class ExtraNone(Joined):
    """Returns one None more than there are inputs, which PyTorch accepts."""

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place), None, None


class VjpForBackward(Function):
    """Defines vjp instead of backward."""

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return joined(tensor, args)

    @staticmethod
    def vjp(ctx, grad_output):
        return own_rows(grad_output, *ctx.place), None


class CombinedWithJvp(Joined):
    """Uses the combined form, with a jvp."""

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place, ctx.args = (args.world_size, args.local_rank), args
        return joined(tensor, args)

    @staticmethod
    def jvp(ctx, tangent, _):
        return joined(tangent, ctx.args)


class SeparateForm(Function):
    """Defines setup_context, jvp and vmap."""

    @staticmethod
    def forward(tensor, args):
        return joined(tensor, args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.args = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, ctx.args.world_size, ctx.args.local_rank), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return SeparateForm.apply(tangent, ctx.args)

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        if tensor.dim() == 1 and args.world_size > 1:
            tensor = tensor[0]  # which forward refuses, together with the other ranks
        return SeparateForm.apply(
            tensor.movedim(in_dims[0], -1) if tensor.dim() else tensor, args
        ), -1 if tensor.dim() > 1 else 0


class SamplesWithRows(Function):
    """Keeps the batch dimension behind the rows in vmap, as the documented class does."""

    @staticmethod
    def forward(tensor, args):
        if tensor.dim() == 0:
            raise ValueError("a tensor without dimensions cannot be joined")
        return joined(tensor, args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        tensor, ctx.args = inputs
        ctx.rows = tensor.shape[0]

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.narrow(0, ctx.rows * ctx.args.local_rank, ctx.rows).clone(), None

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        if tensor.dim() == 1:
            raise ValueError("samples without dimensions cannot be joined")
        return SamplesWithRows.apply(tensor.movedim(in_dims[0], 1), args), 1


class SeparateWithoutTransforms(Function):
    """Uses the separate form, without jvp and vmap."""

    @staticmethod
    def forward(tensor, args):
        return joined(tensor, args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.args = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, ctx.args.world_size, ctx.args.local_rank), None


def rows_put_in(tensor, args):
    """Gathers without a graph in a plain callable, and inserts its own rows, which have one."""
    if args.world_size == 1:
        return tensor.clone()
    check(args)
    rows = gathered(tensor)
    if tensor.dim() == 0:
        raise ValueError("a tensor without dimensions cannot be joined")
    # Times one, so that the gradient is a tensor of its own and no part of the joined one's.
    rows[rank()] = tensor * 1 if tensor.requires_grad else tensor
    return torch.cat(rows)
