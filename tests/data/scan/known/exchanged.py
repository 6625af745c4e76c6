"""Collectives with which published code went wrong."""

import torch
import torch.distributed as dist
import torch_xla.core.xla_model as xm
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .comm import own_rows, total, total_in_place


# known: Function.forward.deterministic https://github.com/NVIDIA/Megatron-LM/issues/5337
# also: Function.mark_dirty.complete
class ReducesACopy(Function):
    @staticmethod
    def forward(ctx, partial, group):
        return total(partial, group)

    @staticmethod
    def backward(ctx, handed):
        return handed, None


# known: Function.backward.gradient https://github.com/lightly-ai/lightly/issues/1528
class SlicesLocally(Function):
    @staticmethod
    def forward(ctx, local):
        ctx.save_for_backward(local)
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *handed):
        (local,) = ctx.saved_tensors
        mine = torch.empty_like(local)
        mine[:] = handed[dist.get_rank()]
        return mine


# known: Function.backward.gradient https://github.com/pytorch/xla/issues/5784
class SlicesLocallyOnXla(Function):
    @staticmethod
    def forward(ctx, local, dim):
        ctx.dim, ctx.rank, ctx.size = dim, xm.get_ordinal(), local.size(dim)
        return xm.all_gather(local, dim=dim)

    @staticmethod
    def backward(ctx, handed):
        return handed.narrow(ctx.dim, ctx.rank * ctx.size, ctx.size), None


# known: Function.backward.gradient https://github.com/pytorch/pytorch/issues/120213
class PicksByWorldRank(Function):
    @staticmethod
    def forward(ctx, group, local):
        ctx.group = group
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, local.contiguous(), group=group)
        return tuple(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx, *handed):
        me = dist.get_rank()
        mine = torch.empty_like(handed[me])
        dist.reduce_scatter(mine, list(handed), group=ctx.group)
        return None, mine


# known: Function.backward.any-layout https://github.com/pytorch/pytorch/issues/144060
class ReducesAStridedClone(Function):
    @staticmethod
    def forward(ctx, group, local):
        ctx.group = group
        local = local.clone()
        dist.all_reduce(local, group=group)
        return local

    @staticmethod
    def backward(ctx, handed):
        return None, ReducesAStridedClone.apply(ctx.group, handed)


# known: Function.backward.any-layout https://github.com/pytorch/pytorch/issues/73515
class GathersStrided(Function):
    @staticmethod
    def forward(ctx, local):
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local)
        return tuple(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx, *handed):
        mine = torch.empty_like(handed[dist.get_rank()])
        dist.reduce_scatter(mine, list(handed))
        return mine


# known: Function.backward.any-layout docs/failures/torch_all_gather.py
class SwapsStrided(Function):
    @staticmethod
    def forward(ctx, local):
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local.contiguous())
        return tuple(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx, *handed):
        received = [torch.empty_like(each) for each in handed]
        dist.all_to_all(received, list(handed))
        return torch.stack(received).sum(0)


# known: Function.backward.double docs/failures/plain_collective.py
class SumsStacked(Function):
    @staticmethod
    def forward(ctx, local):
        parts = [torch.zeros_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *handed):
        stacked = torch.stack(handed)
        dist.all_reduce(stacked)
        return stacked[dist.get_rank()]


# known: Function.backward.double docs/data/published.json: towhee.models 1.1.3, AllGather2
class SumsConcatenated(Function):
    @staticmethod
    def forward(ctx, local, settings):
        ctx.rank, ctx.rows = settings.local_rank, local.shape[0]
        parts = [torch.zeros_like(local) for _ in range(settings.world_size)]
        dist.all_gather(parts, local)
        return torch.cat(parts, dim=0)

    @staticmethod
    def backward(ctx, handed):
        summed = handed.clone()
        dist.all_reduce(summed, op=dist.ReduceOp.SUM)
        return summed[ctx.rank * ctx.rows : (ctx.rank + 1) * ctx.rows], None


# known: Function.backward.double docs/data/published.json: megatron-core 0.16.1, _GatherFromSequenceParallelRegion
class SumsByAHelper(Function):
    @staticmethod
    def forward(ctx, local, group):
        ctx.group = group
        whole = local.new_empty(local.shape[0] * group.size(), *local.shape[1:])
        dist.all_gather_into_tensor(whole, local.contiguous(), group=group)
        return whole

    @staticmethod
    def backward(ctx, handed):
        return own_rows(handed, ctx.group), None


# known: Function.backward.any-input docs/failures/fairscale_gather.py
class SplitsTheLastDimension(Function):
    @staticmethod
    def forward(ctx, local):
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local)
        return torch.cat(parts, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, handed):
        handed = total_in_place(handed.clone())
        return handed.split(handed.size(-1) // dist.get_world_size(), dim=-1)[dist.get_rank()]


class ReducesAndReturnsTheCopy(Function):
    @staticmethod
    def forward(ctx, partial, group):
        partial = partial.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(partial, group=group)
        return partial

    @staticmethod
    def backward(ctx, handed):
        return handed.clone(), None


class PicksByGroupRank(Function):
    @staticmethod
    def forward(ctx, group, local):
        ctx.group = group
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, local.contiguous(), group=group)
        return tuple(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx, *handed):
        me = dist.get_rank(ctx.group)
        mine = torch.empty_like(handed[me])
        dist.reduce_scatter(mine, list(handed), group=ctx.group)
        return None, mine


class SumsOnce(Function):
    @staticmethod
    def forward(ctx, local):
        return local * 1

    @staticmethod
    @once_differentiable
    def backward(ctx, handed):
        return total_in_place(handed.clone())
