"""Correct vmap rules: for batches of any size, and some that refuse certain sizes, flags or dimensions."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"


class MeanOf(Function):
    """Averages the elements of a matrix."""

    inputs = of_shapes((2, 5))

    @staticmethod
    def forward(x):
        return x.mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx, grad):
        return (grad / (ctx.shape[0] * ctx.shape[1])).expand(ctx.shape).clone()

    @staticmethod
    def vmap(info, in_dims, x):
        return x.movedim(in_dims[0], 0).flatten(1).mean(1), 0


class RowsNormalized(Function):
    """Subtracts the mean of each row."""

    inputs = of_shapes((2, 5))

    @staticmethod
    def forward(x):
        return x - x.mean(-1, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad - grad.mean(-1, keepdim=True)

    @staticmethod
    def vmap(info, in_dims, x):
        return RowsNormalized.apply(x.movedim(in_dims[0], 0)), 0


class RefusesOneSample(RowsNormalized):
    """Refuses a batch of one in its vmap rule."""

    inputs = RowsNormalized.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        if info.batch_size == 1:
            raise NotImplementedError("call it without vmap")
        return RowsNormalized.vmap(info, in_dims, x)


class SumOver(Function):
    """Sums along a dimension that is an argument."""

    inputs = of_shapes((3, 4), others=(0,))

    @staticmethod
    def forward(x, dim):
        return x.sum(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim = inputs
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, grad):
        return grad.unsqueeze(ctx.dim).expand(ctx.shape), None

    @staticmethod
    def vmap(info, in_dims, x, dim):
        return x.movedim(in_dims[0], 0).sum(dim + 1 if dim >= 0 else dim), 0


class FirstDimensionAlone(SumOver):
    """Supports only the first dimension in its vmap rule, and refuses others."""

    inputs = SumOver.inputs

    @staticmethod
    def vmap(info, in_dims, x, dim):
        if dim != 0:
            raise NotImplementedError(f"no rule for dimension {dim}")
        return SumOver.vmap(info, in_dims, x, dim)


class Rolled(Function):
    """Shifts by a number along a dimension, and raises in vmap for all but the last one."""

    inputs = of_shapes((3, 4), others=(1, -1))

    @staticmethod
    def forward(x, shift, dim):
        return x.roll(shift, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.shift, ctx.dim = inputs

    @staticmethod
    def backward(ctx, grad):
        return grad.roll(-ctx.shift, ctx.dim), None, None

    @staticmethod
    def vmap(info, in_dims, x, shift, dim):
        if dim != -1:
            raise ValueError(f"no rule for dimension {dim}")
        return x.movedim(in_dims[0], 0).roll(shift, dim), 0


class CentredOnDemand(Function):
    """Squares, after subtracting the mean if a flag is set."""

    inputs = of_shapes((3, 4), others=(True,))

    @staticmethod
    def forward(x, centred):
        return (x - x.mean(-1, keepdim=True)).square() if centred else x.square()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.centred = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if not ctx.centred:
            return 2 * grad * x, None
        first = 2 * grad * (x - x.mean(-1, keepdim=True))
        return first - first.mean(-1, keepdim=True), None

    @staticmethod
    def vmap(info, in_dims, x, centred):
        return CentredOnDemand.apply(x.movedim(in_dims[0], 0), centred), 0


class NoiseForEachSample(Function):
    """Adds noise, the same or different for each sample, as info.randomness says."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(x):
        return x + torch.rand_like(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad

    @staticmethod
    def vmap(info, in_dims, x):
        x = x.movedim(in_dims[0], 0)
        if info.randomness == "error":
            raise RuntimeError("say which randomness vmap is to have")
        noise = torch.rand_like(x[0]).expand(x.shape) if info.randomness == "same" else torch.rand_like(x)
        return x + noise, 0


class ProductOfRows(Function):
    """Multiplies two tensors, each of which may have a batch dimension."""

    inputs = of_shapes((3, 4), (3, 4))

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    @staticmethod
    def vmap(info, in_dims, x, y):
        return ProductOfRows.apply(*in_front(in_dims, x, y)), 0


def in_front(in_dims, *tensors):
    """The tensors with the batch dimension in front, if they have one; some alone may be of an outer batch too."""
    rank = max(x.dim() - (dim is not None) for x, dim in zip(tensors, in_dims, strict=True))
    found = [x if dim is None else x.movedim(dim, 0) for x, dim in zip(tensors, in_dims, strict=True)]
    return [
        x if dim is None else x.reshape(x.shape[0], *[1] * (rank + 1 - x.dim()), *x.shape[1:])
        for x, dim in zip(found, in_dims, strict=True)
    ]
