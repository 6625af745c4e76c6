"""Correct Functions with dimensions that have a fixed meaning, or that are all of the same size."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct.function_forms import Combined
from tests.samples import of_shapes

SPEC = "Function"


class Modulus(Function):
    """Takes pairs of real and imaginary parts in the last dimension; further entries are ignored."""

    inputs = of_shapes((4, 3, 2))

    @staticmethod
    def forward(ctx, x):
        modulus = (x[..., 0].square() + x[..., 1].square()).sqrt()
        ctx.save_for_backward(x, modulus)
        return modulus

    @staticmethod
    def backward(ctx, grad):
        x, modulus = ctx.saved_tensors
        return (grad / modulus).unsqueeze(-1) * x


class Areas(Function):
    """Takes boxes: the last dimension is left, top, right and bottom."""

    @staticmethod
    def inputs():
        yield (torch.rand(5, 4, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, boxes):
        ctx.save_for_backward(boxes)
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

    @staticmethod
    def backward(ctx, grad):
        (boxes,) = ctx.saved_tensors
        width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        sides = torch.stack([-height, -width, height, width])
        return (grad * sides).t()


class RealPartOfQuaternions(Function):
    """Takes quaternions: the last dimension has four entries."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, q):
        ctx.save_for_backward(q)
        return q[:, 0].square() - q[:, 1:4].square().sum(1)

    @staticmethod
    def backward(ctx, grad):
        (q,) = ctx.saved_tensors
        return 2 * grad.unsqueeze(1) * torch.cat([q[:, :1], -q[:, 1:]], 1)


class AlikeDimensions(Combined):
    """Takes five dimensions of size two: made longer along all of them, they would exhaust memory."""

    inputs = of_shapes((2, 2, 2, 2, 2))


class MeanOverPairs(Function):
    """Averages over all pairs of rows; the inputs may have different numbers of rows."""

    inputs = of_shapes((3, 2), (3, 2))

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return (x @ y.t()).mean()

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        share = grad / (x.shape[0] * y.shape[0])
        return (share * y.sum(0)).expand(x.shape), (share * x.sum(0)).expand(y.shape)


class RowsInCommon(Function):
    """Multiplies as many rows as both inputs have, and ignores the rest."""

    inputs = of_shapes((3, 2), (3, 2))

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        rows = min(len(x), len(y))
        return x[:rows] * y[:rows]

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y[: len(grad)], grad * x[: len(grad)]


class OneRow(Function):
    """Reads only the first row; its sample has one."""

    inputs = of_shapes((1, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x[0].sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad * x[0].cos()).expand(x.shape)


class BroadcastRow(Function):
    """Multiplies every row by the single row of its second input."""

    @staticmethod
    def inputs():
        shapes = (1, 3), (1, 3)
        yield tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)

    @staticmethod
    def forward(ctx, x, row):
        ctx.save_for_backward(x, row)
        return x * row

    @staticmethod
    def backward(ctx, grad):
        x, row = ctx.saved_tensors
        return grad * row, (grad * x).sum(0, keepdim=True)


class BiasAlongADimension(Function):
    """Adds a bias of one column; with the other dimension the parts happen to broadcast, and it has another shape."""

    @staticmethod
    def inputs():
        x, bias = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 1, dtype=torch.float64)
        yield x.requires_grad_(), bias.requires_grad_(), 0

    @staticmethod
    def forward(ctx, x, bias, dim):
        ctx.dim = dim
        return x + bias

    @staticmethod
    def backward(ctx, grad):
        others = [dim for dim in range(grad.dim()) if dim != ctx.dim]
        return grad, grad.sum(others, keepdim=True), None


class RowsOfExperts(Function):
    """Orders rows by their place with an expert; as many rows as experts times places are there."""

    inputs = of_shapes((6, 3), others=(3, 2))

    @staticmethod
    def forward(ctx, x, experts, places):
        ctx.experts, ctx.places = experts, places
        return x.view(experts, places, -1).transpose(0, 1).reshape(experts * places, -1)

    @staticmethod
    def backward(ctx, grad):
        rows = grad.view(ctx.places, ctx.experts, -1).transpose(0, 1)
        return rows.reshape(ctx.experts * ctx.places, -1), None, None


class PlacesOfExperts(Function):
    """The same by an index, which is one to one for as many rows alone."""

    inputs = of_shapes((6, 3), others=(3, 2))

    @staticmethod
    def forward(ctx, x, experts, places):
        index = torch.arange(experts * places).view(experts, places).t().reshape(-1)
        ctx.save_for_backward(index)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        return grad.index_select(0, index.argsort()), None, None


class RowsByTheirNorm(Function):
    """Divides each row by its norm."""

    inputs = of_shapes((3, 4, 5))

    @staticmethod
    def forward(ctx, x):
        norms = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, norms)
        return x / norms

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, norms = ctx.saved_tensors
        along = ((grad * x).sum(-1) / norms.squeeze(-1) ** 3).unsqueeze(-1)
        return grad / norms - along * x
