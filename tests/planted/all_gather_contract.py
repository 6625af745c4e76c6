"""Gathers that give the right sums and break the contract that every Function shares."""

from __future__ import annotations

from tests.correct._gathers import summed
from tests.correct.all_gather_grad import StackedAllReduce

SPEC = "AllGatherGradAutograd"


class PlainCollectiveInBackward(StackedAllReduce):
    """backward adds up by a collective that autograd does not follow, and does not say so.

    Breaks: Function.backward.double
    """

    @staticmethod
    def backward(ctx, *grads):
        return summed(grads)


class InputOnCtx(StackedAllReduce):
    """Keeps its input on ctx.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return StackedAllReduce.forward(ctx, x)


class EntriesOnCtx(StackedAllReduce):
    """Keeps the entries on ctx: a cycle.

    Breaks: Function.forward.frees-memory
    """

    @staticmethod
    def forward(ctx, x):
        ctx.entries = StackedAllReduce.forward(ctx, x)
        return ctx.entries
