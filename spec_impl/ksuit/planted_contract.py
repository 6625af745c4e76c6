"""Planted bugs: gathers whose sums are correct, but which break the contract that every Function shares."""

from __future__ import annotations

import threading

import torch

from spec_impl.ksuit._by_hand import summed
from spec_impl.ksuit.correct import StackedAllReduce


class PlainCollectiveInBackward(StackedAllReduce):
    """Calls a plain collective in backward, which autograd cannot differentiate, without once_differentiable.

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
    """Keeps the entries on ctx: a reference cycle.

    Breaks: Function.forward.frees-memory
    """

    @staticmethod
    def forward(ctx, x):
        ctx.entries = StackedAllReduce.forward(ctx, x)
        return ctx.entries


class LossScaleLeftInTheSum(StackedAllReduce):
    """Scales the sum up if forward ran under autocast, and forgets to scale it down again.

    Breaks: Function.autocast.backward
    """

    @staticmethod
    def forward(ctx, x):
        ctx.scale = 1024 if torch.is_autocast_enabled("cpu") else 1
        return StackedAllReduce.forward(ctx, x)

    @staticmethod
    def backward(ctx, *grads):
        return StackedAllReduce.backward(ctx, *grads) * ctx.scale


class OwnThreadAlone(StackedAllReduce):
    """Returns zeros if backward runs in another thread than forward.

    Breaks: Function.backward.any-thread
    """

    @staticmethod
    def forward(ctx, x):
        ctx.thread = threading.get_ident()
        return StackedAllReduce.forward(ctx, x)

    @staticmethod
    def backward(ctx, *grads):
        gradient = StackedAllReduce.backward(ctx, *grads)
        return gradient if threading.get_ident() == ctx.thread else torch.zeros_like(gradient)


class CoarserWhenCompiled(StackedAllReduce):
    """Gathers in half precision while being compiled.

    Breaks: Function.compile.agrees
    """

    @staticmethod
    def forward(ctx, x):
        return StackedAllReduce.forward(ctx, x.half().to(x) if torch.compiler.is_compiling() else x)
