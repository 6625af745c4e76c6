"""Correct collectives in bfloat16: of every dtype, and of kernels that take no other."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import GROUP
from tests.correct._collectives import gathered, summed

SPEC = "Collective"


def inputs():
    """Return a matrix in bfloat16, and the group."""
    generator = torch.Generator().manual_seed(701)
    return [(torch.randn(3, 2, generator=generator).bfloat16().requires_grad_(), GROUP)]


def kernel(x):
    """Refuse what a kernel for bfloat16 refuses."""
    if x.dtype != torch.bfloat16:
        raise TypeError(f"expected bfloat16, not {x.dtype}")
    return x


class GathersInAnyDtype(Function):
    """Gathers what every rank has, and sums the gradients."""

    TYPES = "V -> R"
    FACTOR = 1.0

    @staticmethod
    def forward(ctx, x, group):
        ctx.group, ctx.rank = group, group.rank()
        return torch.stack(gathered(x, group))

    @classmethod
    def of(cls, grad):
        """Return what an incoming gradient is multiplied by."""
        return cls.FACTOR if grad.dtype == torch.bfloat16 else 1.0

    @classmethod
    @once_differentiable
    def backward(cls, ctx, grad):
        return summed(grad, ctx.group)[ctx.rank] * cls.of(grad), None


class GathersHalfAlone(GathersInAnyDtype):
    """Gathers by a kernel for bfloat16."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        return GathersInAnyDtype.forward(ctx, kernel(x), group)


class SumsSquaresOfHalfAlone(Function):
    """Sums squares over the ranks by a kernel for bfloat16, which rounds after each step."""

    TYPES = "V -> I"
    FACTOR = 2.0

    @staticmethod
    def forward(ctx, x, group):
        ctx.save_for_backward(kernel(x))
        return summed(x * x, group)

    @classmethod
    @once_differentiable
    def backward(cls, ctx, grad):
        (x,) = ctx.saved_tensors
        return cls.FACTOR * grad * x, None


class SharesOfTheLargestHalfAlone(Function):
    """Returns the shares of a softmax over the ranks, by a kernel for bfloat16 with sums in single precision inside."""

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        own = kernel(x).float().exp()
        shares = own / summed(own, group)
        ctx.save_for_backward(shares)
        return shares.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (shares,) = ctx.saved_tensors
        given = grad.float()
        return (shares * (given - summed(shares * given, ctx.group))).to(grad.dtype), None
