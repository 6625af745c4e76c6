"""Correct gathers that give one tensor, joined or stacked, along the first dimension or another."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from spec_impl.ksuit._by_hand import dense, gathered, joined, own_rows, rank, size


class _Joined(Function):
    DIM = 0

    @classmethod
    def forward(cls, ctx, x):
        return torch.cat(gathered(x), cls.DIM)

    @classmethod
    @once_differentiable
    def backward(cls, ctx, grad):
        total = dense(grad)
        dist.all_reduce(total)
        return total.chunk(size(), cls.DIM)[rank()].clone(memory_format=torch.contiguous_format)


class _JoinedColumns(_Joined):
    DIM = 1


class _Stacked(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.stack(gathered(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = dense(grad)
        dist.all_reduce(total)
        return total[rank()].clone()


class _JoinedLast(_Joined):
    DIM = -1


class _StackedLast(Function):
    DIM = -1

    @classmethod
    def forward(cls, ctx, x):
        return torch.stack(gathered(x), cls.DIM)

    @classmethod
    @once_differentiable
    def backward(cls, ctx, grad):
        total = dense(grad)
        dist.all_reduce(total)
        return total.select(cls.DIM, rank()).clone(memory_format=torch.contiguous_format)


class _StackedSecond(_StackedLast):
    DIM = 1


Joined = Subject(_Joined, spec="AllGatherGradAutograd", result="joined")
JoinedColumns = Subject(_JoinedColumns, spec="AllGatherGradAutograd", result="joined", dim=1)
JoinedLast = Subject(_JoinedLast, spec="AllGatherGradAutograd", result="joined", dim=-1)
StackedLast = Subject(_StackedLast, spec="AllGatherGradAutograd", result="stacked", dim=-1)
StackedSecond = Subject(_StackedSecond, spec="AllGatherGradAutograd", result="stacked", dim=1)
Stacked = Subject(_Stacked, spec="AllGatherGradAutograd", result="stacked")


class _StackedRows(Function):
    @staticmethod
    def forward(ctx, tensor, args):
        ctx.args = args
        whole = joined(tensor, args)
        return whole.reshape(args.world_size, *tensor.shape)

    @staticmethod
    def backward(ctx, grad):
        return own_rows(grad, ctx.args.world_size, ctx.args.local_rank)[0], None


StackedRows = Subject(_StackedRows, spec="AllGather", result="stacked")


class _WithoutArgs(Function):
    @staticmethod
    def forward(ctx, tensor):
        return torch.cat(gathered(tensor))

    @staticmethod
    def backward(ctx, grad):
        return own_rows(grad, size(), rank())


WithoutArgs = Subject(_WithoutArgs, spec="AllGather", call=lambda function, tensor, args: function.apply(tensor))
