"""Planted bugs: gathers that return one tensor, and ignore the strides of its gradient."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from spec_impl.ksuit._by_hand import gathered, rank, size

SPEC = "AllGatherGradAutograd"


def _joined(function):
    return Subject(function, spec=SPEC, result="joined")


@_joined
class JoinedGradientTakenForContiguous(Function):
    """Reads the gradient of the joined tensor in memory order, ignoring its strides.

    Breaks: AllGatherGradAutograd.backward.sum
    """

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return torch.cat(gathered(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        shape = (size() * ctx.shape[0], *ctx.shape[1:])
        total = grad.detach().as_strided(shape, torch.empty(shape).stride()).clone()
        dist.all_reduce(total)
        return total.chunk(size())[rank()].clone()
