"""Correct Functions with numbers, constants and masks for which not every other value is allowed."""

from __future__ import annotations

import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tests.samples import of_shapes

SPEC = "Function"

_DOUBLE = torch.float64


class Scaled(Function):
    """Multiplies by a number, which is one in the sample and by default."""

    inputs = of_shapes((3, 4), others=(1.0,))

    @staticmethod
    def forward(ctx, x, scale=1.0):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.scale * grad * x.cos(), None


class ScaledByDefault(Scaled):
    """Multiplies by a number whose default is one; the sample does not pass it."""

    inputs = of_shapes((3, 4))


class CumulativeSum(Function):
    """Adds up along the last dimension unless told another; the sample does not tell."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x, dim=-1):
        ctx.dim = dim
        return x.cumsum(dim)

    @staticmethod
    def backward(ctx, grad):
        return grad.flip(ctx.dim).cumsum(ctx.dim).flip(ctx.dim), None


class SumOrMeanPerhapsScaled(Function):
    """Adds up or averages, and scales if there is a factor; the sample tells neither."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x, scale=None, reduction="sum"):
        ctx.shape, ctx.scale, ctx.reduction = x.shape, scale, reduction
        found = x.mean(1) if reduction == "mean" else x.sum(1)
        return found if scale is None else found * scale

    @staticmethod
    def backward(ctx, grad):
        part = grad / ctx.shape[1] if ctx.reduction == "mean" else grad
        part = part if ctx.scale is None else part * ctx.scale
        return part.unsqueeze(1).expand(ctx.shape), None, None


class SumOrMeanPlusBias(Function):
    """Adds up or averages, and adds a bias if there is one; the sample tells neither."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x, bias=None, mean=False):
        ctx.shape, ctx.biased, ctx.mean = x.shape, bias is not None, mean
        found = x.mean(1) if mean else x.sum(1)
        return found if bias is None else found + bias

    @staticmethod
    def backward(ctx, grad):
        part = grad / ctx.shape[1] if ctx.mean else grad
        return part.unsqueeze(1).expand(ctx.shape), grad.sum() if ctx.biased else None, None


class ScalesTheGradientAlone(Function):
    """Scales only the gradient: for a factor of one it is the derivative, otherwise not, on purpose."""

    inputs = of_shapes((3, 4), others=(1.0,))

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad, None


class ClipsTheGradientOnDemand(Function):
    """Clips its gradient at a limit that is infinite in the sample."""

    inputs = of_shapes((3, 4), others=(math.inf,))

    @staticmethod
    def forward(ctx, x, most):
        ctx.save_for_backward(x)
        ctx.most = most
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (2 * x * grad).clamp(-ctx.most, ctx.most), None


class ClipsTheGradientIfAsked(Function):
    """Clips its gradient if a limit is given; the sample gives none."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x, most=None):
        ctx.save_for_backward(x)
        ctx.most = math.inf if most is None else most
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (2 * x * grad).clamp(-ctx.most, ctx.most), None


class PositiveTemperature(Function):
    """Accepts only positive temperatures."""

    inputs = of_shapes((3, 4), others=(1.0,))

    @staticmethod
    def forward(ctx, x, temperature):
        if temperature <= 0:
            raise ValueError(f"temperature has to be positive, not {temperature}")
        share = (x / temperature).softmax(-1)
        ctx.save_for_backward(share)
        ctx.temperature = temperature
        return share

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        return share * (grad - (grad * share).sum(-1, keepdim=True)) / ctx.temperature, None


class Smoothed(Function):
    """Adds a multiple of a square; the factor is zero in the sample."""

    inputs = of_shapes((3, 4), others=(0.0,))

    @staticmethod
    def forward(ctx, x, part):
        ctx.save_for_backward(x)
        ctx.part = part
        return x.sin() + part * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.cos() + 2 * ctx.part * x), None


class ThroughAStep(Function):
    """Rounds to multiples of a step unless that is zero, and passes the gradient straight through."""

    inputs = of_shapes((3, 4), others=(0.0,))

    @staticmethod
    def forward(ctx, x, step):
        return (x / step).round() * step if step else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Weighted(Function):
    """Multiplies by weights and adds an offset before squaring; they are ones and zeros in the sample."""

    @staticmethod
    def inputs():
        yield (
            torch.randn(3, 4, dtype=_DOUBLE, requires_grad=True),
            torch.ones(4, dtype=_DOUBLE),
            torch.zeros(4, dtype=_DOUBLE),
        )

    @staticmethod
    def forward(ctx, x, weight, offset):
        ctx.save_for_backward(x, weight, offset)
        return (x * weight + offset) ** 2

    @staticmethod
    def backward(ctx, grad):
        x, weight, offset = ctx.saved_tensors
        return 2 * grad * weight * (x * weight + offset), None, None


class NormalizedWeights(Function):
    """Averages under weights that must sum to one; backward relies on that for the last one."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=_DOUBLE, requires_grad=True), torch.full((4,), 0.25, dtype=_DOUBLE)

    @staticmethod
    def forward(ctx, x, weight):
        if not torch.isclose(weight.sum(), weight.new_ones(())):
            raise ValueError("weights have to add up to one")
        ctx.save_for_backward(weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        first = grad[:, None] * weight[:-1]
        return torch.cat([first, grad[:, None] * (1 - weight[:-1].sum())], 1), None


class MeanOfThoseKept(Function):
    """Averages the rows that a mask of ones and zeros keeps."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 3, dtype=_DOUBLE, requires_grad=True), torch.ones(4, dtype=_DOUBLE)

    @staticmethod
    def forward(ctx, x, kept):
        ctx.save_for_backward(kept)
        return (x * kept[:, None]).sum(0) / kept.sum()

    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return kept[:, None] * grad / kept.sum(), None


class BetweenSortedKnots(Function):
    """Interpolates between knots that must be sorted."""

    @staticmethod
    def inputs():
        x = torch.tensor([0.2, 0.9, 1.7, 2.6], dtype=_DOUBLE, requires_grad=True)
        yield x, torch.arange(4, dtype=_DOUBLE), torch.tensor([0.3, -0.4, 0.9, 0.1], dtype=_DOUBLE)

    @staticmethod
    def forward(ctx, x, knots, heights):
        if bool((knots.diff() <= 0).any()):
            raise ValueError("knots have to come in order")
        at = torch.searchsorted(knots, x.detach()).clamp(1, len(knots) - 1)
        rise, gap = heights[at] - heights[at - 1], knots[at] - knots[at - 1]
        ctx.save_for_backward(rise, gap)
        return heights[at - 1] + rise / gap * (x - knots[at - 1])

    @staticmethod
    def backward(ctx, grad):
        rise, gap = ctx.saved_tensors
        return grad * rise / gap, None, None


class RaisedTo(Function):
    """Raises to a power that is an argument; the samples differ in dimensions and power."""

    @staticmethod
    def inputs():
        yield (torch.rand(4, dtype=_DOUBLE) + 0.5).requires_grad_(), 2
        yield (torch.rand(3, 2, dtype=_DOUBLE) + 0.5).requires_grad_(), 3

    @staticmethod
    def forward(ctx, x, power):
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.power * grad * x ** (ctx.power - 1), None


class SumAlong(Function):
    """Sums along a dimension; that of one sample is out of range for the other."""

    @staticmethod
    def inputs():
        yield torch.randn(4, dtype=_DOUBLE, requires_grad=True), 0
        yield torch.randn(3, 2, 4, dtype=_DOUBLE, requires_grad=True), 2

    @staticmethod
    def forward(ctx, x, dim):
        ctx.shape, ctx.dim = x.shape, dim
        return x.sum(dim)

    @staticmethod
    def backward(ctx, grad):
        return grad.unsqueeze(ctx.dim).expand(ctx.shape), None


class TopAlong(Function):
    """Returns the largest numbers along a dimension, which is the last one in the sample."""

    inputs = of_shapes((3, 6), others=(2, -1, True))

    @staticmethod
    def forward(ctx, x, count, dim, largest):
        ctx.shape, ctx.dim = x.shape, dim
        found, places = x.topk(count, dim, largest)
        ctx.save_for_backward(places)
        return found

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(ctx.dim, places, grad), None, None, None


class LargestAlong(Function):
    """Returns the largest number along a dimension."""

    inputs = of_shapes((3, 5), others=(1,))

    @staticmethod
    def forward(ctx, x, dim):
        ctx.shape, ctx.dim = x.shape, dim
        found, place = x.max(dim)
        ctx.save_for_backward(place)
        return found

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(ctx.dim, place.unsqueeze(ctx.dim), grad.unsqueeze(ctx.dim)), None


class OnASphere(Function):
    """Scales rows to the length that a tensor of one number holds."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=_DOUBLE, requires_grad=True), torch.ones(1, dtype=torch.float64)

    @staticmethod
    def forward(ctx, x, radius):
        ctx.save_for_backward(x, radius)
        return radius * x / x.norm(dim=-1, keepdim=True)

    @staticmethod
    def backward(ctx, grad):
        x, radius = ctx.saved_tensors
        length = x.norm(dim=-1, keepdim=True)
        unit = x / length
        return radius / length * (grad - unit * (unit * grad).sum(-1, keepdim=True)), None


class TakenAlong(Function):
    """Takes the numbers of each row in another order; the indices, and those of the way back, are of that dimension."""

    @staticmethod
    def inputs():
        x = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        order = x.argsort(1)
        yield x.requires_grad_(), order, order.argsort(1), 1

    @staticmethod
    def forward(ctx, x, places, back, dim):
        ctx.save_for_backward(back)
        ctx.dim = dim
        return x.take_along_dim(places, dim)

    @staticmethod
    def backward(ctx, grad):
        (back,) = ctx.saved_tensors
        return grad.take_along_dim(back, ctx.dim), None, None, None


class DecaysInChunks(Function):
    """Adds up what fades, chunk by chunk along the second dimension; how long a chunk is makes no difference."""

    inputs = of_shapes((2, 4, 3))

    @staticmethod
    def forward(ctx, x, chunk=2):
        ctx.chunk = chunk
        rows, total = [], torch.zeros_like(x[:, :1])
        for part in x.split(chunk, 1):
            for row in part.split(1, 1):
                total = total / 2 + row
                rows.append(total)
        return torch.cat([x[:, :0], *rows], 1)

    @staticmethod
    def backward(ctx, grad):
        return DecaysInChunks.apply(grad.flip(1), ctx.chunk).flip(1), None


class CumulativeSumAlong(CumulativeSum):
    """Adds up along a dimension that the sample counts from the start."""

    inputs = of_shapes((3, 4), others=(1,))


class RootMeanSquare(Function):
    """Divides rows by the root of their mean square, which a small number keeps from zero."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x, eps=1e-6):
        size = x.square().mean(-1, keepdim=True).add(eps).sqrt()
        ctx.save_for_backward(x, size)
        ctx.eps = eps
        return x / size

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, size = ctx.saved_tensors
        return grad / size - x * (grad * x).mean(-1, keepdim=True) / size**3, None


class UntilChangesAreSmall(Function):
    """Iterates until changes are below a small number, and differentiates the fixed point."""

    inputs = of_shapes((3,))

    @staticmethod
    def forward(ctx, x, eps=1e-12):
        point = x
        while True:
            before, point = point, x + 0.3 * point.sin()
            if bool((point - before).abs().max() < eps):
                break
        ctx.save_for_backward(point)
        return point

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (point,) = ctx.saved_tensors
        return grad / (1 - 0.3 * point.cos()), None


class MeanOfLogarithmsOfShares(Function):
    """Averages a loss over the labels that are not to be ignored; in the sample, that is all of them."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 5, dtype=_DOUBLE, requires_grad=True), torch.tensor([1, 0, 4, 2])

    @staticmethod
    def forward(ctx, x, labels, ignore_index=-100):
        kept = labels != ignore_index
        ctx.save_for_backward(x.softmax(-1), labels * kept, kept)
        shares = x.log_softmax(-1).gather(-1, (labels * kept)[:, None])[:, 0]
        return -(shares * kept).sum() / kept.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        shares, labels, kept = ctx.saved_tensors
        found = shares - functional.one_hot(labels, shares.shape[-1])
        return grad * found * kept[:, None] / kept.sum(), None, None


class RowsOfATable(Function):
    """Takes rows of a table; a number for padding, which none of the sample is, stops the gradient alone."""

    @staticmethod
    def inputs():
        yield torch.randn(6, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([1, 4, 1, 0])

    @staticmethod
    def forward(ctx, table, index, padding_idx=-1):
        ctx.save_for_backward(index)
        ctx.shape, ctx.padding = table.shape, padding_idx
        return table[index]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        kept = grad * (index != ctx.padding)[:, None]
        return grad.new_zeros(ctx.shape).index_add(0, index, kept), None, None
