"""A collective with a bug, in a module that takes names from this suite; ``FIXED=1`` in the environment mends it."""

import os

import torch
import torch.distributed as dist

from conformance import GROUP, check

FIXED = bool(os.environ.get("FIXED"))


def inputs():
    yield torch.randn(3, dtype=torch.float64, requires_grad=True), GROUP


class Sum(torch.autograd.Function):
    """All ranks get the sum; the gradient is the same on all, and nobody has to add it up."""

    @staticmethod
    def forward(ctx, x, group):
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad.clone() if FIXED else 2 * grad, None


def checked():
    return check(Sum, *inputs(), spec="Collective", types="P -> I", ranks=2)
