"""Correct Functions of inputs whose sizes are equal in the sample, or one, and need not be."""

from __future__ import annotations

import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv1d
from torch.nn.grad import conv1d_input, conv1d_weight

from tests.samples import of_shapes

SPEC = "Function"


class Convolution(Function):
    """Convolves a batch of one; the weight has as many dimensions, and more in the first one."""

    inputs = of_shapes((1, 4, 6), (5, 4, 3))

    @staticmethod
    def forward(ctx, x, w):
        if x.dim() != 3:
            raise ValueError("x has a batch, channels and a length")
        ctx.save_for_backward(x, w)
        return conv1d(x, w)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad = grad.to(x.dtype)  # under autocast forward returns another one
        return conv1d_input(x.shape, w, grad), conv1d_weight(x, w.shape, grad)


class ScaledRows(Function):
    """Adds up rows that another input scales; one row of it does for all, and the sum has one row too."""

    inputs = of_shapes((1, 4), (5, 4))

    @staticmethod
    def forward(ctx, x, rows):
        if len(x) > 1:
            raise ValueError("x has one row")
        ctx.save_for_backward(x, rows)
        return (x * rows).sum(0, keepdim=True)

    @staticmethod
    def backward(ctx, grad):
        x, rows = ctx.saved_tensors
        return (grad * rows).sum(0, keepdim=True), (grad * x).expand_as(rows)


class CausalAttention(Function):
    """Attends to keys up to its own place, counted from the last: there may be more keys than queries."""

    inputs = of_shapes((2, 5, 4), (2, 5, 4), (2, 5, 4))

    @staticmethod
    def forward(ctx, q, k, v):
        if q.shape[-2] > k.shape[-2]:
            raise ValueError("more queries than keys")
        ctx.save_for_backward(q, k, v)
        return _attention(q, k, k.shape[-2] - q.shape[-2]) @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v = ctx.saved_tensors
        return gradients(q, k, v, grad.to(q.dtype), k.shape[-2] - q.shape[-2])


def _attention(q, k, beyond):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1 + beyond)
    return (q @ k.mT).masked_fill(mask, -math.inf).softmax(-1)


def gradients(q, k, v, grad, beyond):
    """Those of causal attention in which the first query attends to so many keys before the one at its place."""
    p = _attention(q, k, beyond)
    by_p = grad @ v.mT
    by_scores = p * (by_p - (by_p * p).sum(-1, keepdim=True))
    return by_scores @ k, by_scores.mT @ q, p.mT @ grad


class Parts(Function):
    """Cuts the last dimension into parts of given lengths."""

    inputs = of_shapes((3, 4), others=([2, 2],))

    @staticmethod
    def forward(ctx, x, lengths):
        return tuple(part.clone() for part in x.split(lengths, -1))

    @staticmethod
    def backward(ctx, *grads):
        return torch.cat(grads, -1), None


class ToldItsRows(Function):
    """Takes the number of its input's rows from its caller, and makes as many."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), 3

    @staticmethod
    def forward(ctx, x, rows):
        made = x.new_zeros(rows, x.shape[1])
        made[: len(x)] = 2 * x
        return made

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None


class CircularBlocks(Function):
    """Convolves the blocks of a row with a filter, circularly: a row is as long as all blocks together."""

    inputs = of_shapes((3, 6), (2,))

    @staticmethod
    def forward(ctx, x, w):
        if w.dim() != 1 or x.dim() != 2 or x.shape[1] % len(w):
            raise ValueError("the rows of x are made of blocks that are as long as w")
        ctx.save_for_backward(x, w)
        return (x.view(len(x), -1, len(w)) @ circulant(w)).flatten(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        blocks, grads = (one.to(x.dtype).reshape(-1, len(w)) for one in (x, grad))
        turned = torch.stack([(blocks.roll(by, 1) * grads).sum() for by in range(len(w))])
        return (grads @ circulant(w).T).view_as(x), turned


def circulant(w):
    """The matrix that convolves with these numbers: row after row, each is turned by one."""
    return torch.stack([w.roll(by) for by in range(len(w))])


class RowsOfTwoHalves(Function):
    """Multiplies the halves of each row; the size of another input is a half of it by chance."""

    inputs = of_shapes((3, 4), (2,))

    @staticmethod
    def forward(ctx, x, shift):
        one, other = x.chunk(2, -1)
        ctx.save_for_backward(x)
        return one * other, shift + 1

    @staticmethod
    def backward(ctx, grad, of_shift):
        (x,) = ctx.saved_tensors
        one, other = x.chunk(2, -1)
        return torch.cat([grad * other, grad * one], -1), of_shift
