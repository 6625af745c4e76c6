"""Bugs that show at other sizes than the sample's: one, not a multiple of four, or longer than a block."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import dimensions
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class _Sine(Function):
    """Computes a sine; correct."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class FirstBlockAlone(_Sine):
    """Returns no gradient beyond the first 1024 entries of a row.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        gradient[..., :1024] = (grad * x.cos())[..., :1024]
        return gradient


class LastOfARowForgotten(_Sine):
    """Works on four entries at a time, and forgets the rest of a row.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        fours = x.shape[-1] // 4 * 4
        gradient = torch.zeros_like(x)
        gradient[..., :fours] = (grad * x.cos())[..., :fours]
        return gradient


class LastRowsForgotten(_Sine):
    """Works on blocks of 32 rows, or of all rows if there are fewer, and forgets the last block unless it is full.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        step = min(32, len(x)) or 1
        done = len(x) // step * step
        gradient = torch.zeros_like(x)
        gradient[:done] = (grad * x.cos())[:done]
        return gradient


class RowsOfOneTakenForBroadcast(_Sine):
    """Treats a single row as a broadcast one, which needs no gradient.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() if x.shape[0] != 1 else torch.zeros_like(x)


class IndexOfTheMaximumOverflows(Function):
    """Keeps the index of the maximum in eight bits.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        values, places = x.max(-1)
        ctx.save_for_backward(places.to(torch.uint8))
        ctx.shape = x.shape
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(-1, places.long()[..., None], grad[..., None])


class GradientOverwrittenWhereLong(_Sine):
    """Works in place on a long incoming gradient.

    Breaks: Function.backward.grads-untouched
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.mul_(x.cos()).clone() if grad.numel() > 16 else grad * x.cos()


class InputOverwrittenWhereLong(_Sine):
    """Works in place on a long input, without mark_dirty.

    Breaks: Function.mark_dirty.complete
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        return x.sin_().clone() if x.numel() > 16 else x.sin()


class TangentOverwrittenWhereLong(Function):
    """Works in place on a long tangent.

    Breaks: Function.jvp.tangents-untouched
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent.mul_(x.cos()).clone() if tangent.numel() > 16 else tangent * x.cos()


class MeanOverAsManyPairs(dimensions.MeanOverPairs):
    """Assumes in backward that both inputs have as many rows as the first.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 2), (3, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        share = grad / max(x.shape[0], 1) ** 2
        return (share * y.sum(0)).expand(x.shape), (share * x.sum(0)).expand(y.shape)


class NormOfAllRows(Function):
    """Sums over all rows instead of within each; its sample has one row.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((1, 4))

    @staticmethod
    def forward(ctx, x):
        size = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x / size, size)
        return x / size

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        y, size = ctx.saved_tensors
        return (grad - y * (grad * y).sum()) / size


class SqueezesTheBatch(Function):
    """Squeezes all dimensions of size one instead of the last, which fails for a batch of one.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin().sum(-1, keepdim=True)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.squeeze()[:, None] * x.cos()


class SqueezesInside(dimensions.RowsByTheirNorm):
    """Squeezes all dimensions of size one instead of the last: where there is one inside, rows are broadcast.

    Breaks: Function.backward.gradient
    """

    inputs = dimensions.RowsByTheirNorm.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, norms = ctx.saved_tensors
        along = ((grad * x).sum(-1) / norms.squeeze() ** 3).unsqueeze(-1)
        return grad / norms - along * x


class RoomForSoManyRows(_Sine):
    """Computes in a buffer of 64 rows, and fails for more.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        room = x.new_empty(64, *x.shape[1:])
        room[: len(x)] = grad * x.cos()
        return room[: len(x)].clone()


class LastBlockOfSquares(Function):
    """Sums squares in blocks of 256 and returns no gradient for a last block that is not full.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (torch.linspace(-1, 1, 16, dtype=torch.float64).view(2, 8).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        whole = max(x.shape[-1] // 256 * 256, 256)
        gradient[:, :whole] = 2 * x[:, :whole] * grad[:, None]
        return gradient


class CarryLostBetweenBlocks(Function):
    """Adds up along the middle dimension, and backward in blocks of 64: it forgets what later blocks carry over.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((2, 5, 3), (2, 5, 3))

    @staticmethod
    def forward(ctx, decay, x):
        rows = [x[:, 0]]
        for at in range(1, x.shape[1]):
            rows.append(decay[:, at] * rows[-1] + x[:, at])
        result = torch.stack(rows, 1)
        ctx.save_for_backward(decay, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        decay, result = ctx.saved_tensors
        of_decay, of_x = torch.zeros_like(decay), torch.zeros_like(grad)
        for end in range(grad.shape[1], 0, -64):
            carried = torch.zeros_like(grad[:, 0])
            for at in reversed(range(max(0, end - 64), end)):
                of_x[:, at] = carried + grad[:, at]
                of_decay[:, at] = of_x[:, at] * result[:, at - 1] if at else 0
                carried = decay[:, at] * of_x[:, at]
        return of_decay, of_x


class PaddingKeptInTheGradient(Function):
    """Pads rows to a multiple of four for its kernel, and does not cut the gradient: it fits if nothing is padded.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % 4))
        ctx.save_for_backward(padded)
        return padded.sin()[..., : x.shape[-1]].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (padded,) = ctx.saved_tensors
        return torch.nn.functional.pad(grad, (0, -grad.shape[-1] % 4)) * padded.cos()
