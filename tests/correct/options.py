"""Correct Functions with several options, some of which are about the gradient alone, or replace it on purpose."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((4, 3), others=(False, 1.0, False))


class ReducedAndScaled(Function):
    """Adds up or averages, of sines or of squares, and scales."""

    inputs = of_shapes((4, 3), others=(False, "sum", 1.0))

    @staticmethod
    def forward(ctx, x, squared, reduction, scale):
        ctx.save_for_backward(x)
        ctx.squared, ctx.reduction, ctx.scale = squared, reduction, scale
        powers = x * x if squared else x.sin()
        return scale * (powers.mean(1) if reduction == "mean" else powers.sum(1))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        part = ctx.scale * grad / (x.shape[1] if ctx.reduction == "mean" else 1)
        return part[:, None] * (2 * x if ctx.squared else x.cos()), None, None, None


class _RowsPerhapsAveraged(Function):
    @staticmethod
    def reduced(ctx, x, scale, mean):
        ctx.shape, ctx.part = x.shape, scale / x.shape[1] if mean else scale
        return ctx.part * x.sum(1)

    @staticmethod
    def backward(ctx, grad):
        return (ctx.part * grad)[:, None].expand(ctx.shape), None, None, None


class ClippedBackward(_RowsPerhapsAveraged):
    """Clips its gradient if a flag is set, whatever the other options are."""

    @staticmethod
    def forward(ctx, x, clip, scale, mean):
        ctx.most = 0.1 if clip else torch.inf
        return _RowsPerhapsAveraged.reduced(ctx, x, scale, mean)

    @staticmethod
    def backward(ctx, grad):
        found, *others = _RowsPerhapsAveraged.backward(ctx, grad)
        return found.clamp(-ctx.most, ctx.most), *others


class RoundedOrNot(_RowsPerhapsAveraged):
    """Rounds if a flag is set, and passes the gradient straight through, whatever the other options are."""

    @staticmethod
    def forward(ctx, x, hard, scale, mean):
        return _RowsPerhapsAveraged.reduced(ctx, x.round() if hard else x, scale, mean)


class LargestOf(Function):
    """The largest element along a dimension, or of all."""

    inputs = of_shapes((3, 4), others=(1,))

    @staticmethod
    def forward(ctx, x, dim=None):
        flat = x.reshape(-1) if dim is None else x
        place = flat.argmax(0 if dim is None else dim, keepdim=True)
        ctx.save_for_backward(place)
        ctx.shape, ctx.dim = x.shape, dim
        return flat.gather(0 if dim is None else dim, place).squeeze(0 if dim is None else dim)

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        if ctx.dim is None:
            flat = grad.new_zeros(ctx.shape.numel())
            return flat.scatter(0, place, grad.unsqueeze(0)).reshape(ctx.shape), None
        return grad.new_zeros(ctx.shape).scatter(ctx.dim, place, grad.unsqueeze(ctx.dim)), None


class PartsOfARow(Function):
    """The softmax along a dimension; without one, forward refuses."""

    inputs = of_shapes((3, 4), others=(1,))

    @staticmethod
    def forward(ctx, x, dim=None):
        if dim is None:
            raise ValueError("along which dimension?")
        parts = x.softmax(dim)
        ctx.save_for_backward(parts)
        ctx.dim = dim
        return parts

    @staticmethod
    def backward(ctx, grad):
        (parts,) = ctx.saved_tensors
        return parts * (grad - (grad * parts).sum(ctx.dim, keepdim=True)), None
