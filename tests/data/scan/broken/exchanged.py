"""Collectives whose result is lost, or is taken from the wrong place."""

import torch
from torch import distributed
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SumsACopyOfItsInput(Function):
    @staticmethod
    def forward(ctx, x, group):
        # expect: Function.forward.deterministic likely
        distributed.all_reduce(x.contiguous(), group=group)  # expect: Function.mark_dirty.complete likely
        return x

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.exp(), None


class SumsACopyOfItsGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        # expect: Function.backward.any-layout likely
        distributed.all_reduce(grad_output.contiguous())  # expect: Function.backward.grads-untouched likely
        return grad_output


class CountsByTheWorld(Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        stacked = torch.stack(gradients)
        distributed.all_reduce(stacked, group=ctx.group)
        return stacked[distributed.get_rank()], None  # expect: Function.backward.gradient likely
