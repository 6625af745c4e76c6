"""Bugs that show where sizes differ that are equal in the sample, or where one is more than one."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable
from torch.nn.grad import conv1d_input, conv1d_weight

from tests.correct import sizes_apart as right

SPEC = "Function"


class WeightOfTheFirstImage(right.Convolution):
    """Returns the gradient of the weight by the first image of a batch alone.

    Breaks: Function.backward.gradient
    """

    inputs = right.Convolution.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad = grad.to(x.dtype)
        return conv1d_input(x.shape, w, grad), conv1d_weight(x[:1], w.shape, grad[:1])


class MaskFromTheFirstKey(right.CausalAttention):
    """Counts the places of queries from the first key in backward, and from the last in forward.

    Breaks: Function.backward.gradient
    """

    inputs = right.CausalAttention.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v = ctx.saved_tensors
        return right.gradients(q, k, v, grad.to(q.dtype), 0)


class PartsJoinedInReverse(right.Parts):
    """Joins the gradients of unequal parts in reverse order.

    Breaks: Function.backward.gradient
    """

    inputs = right.Parts.inputs

    @staticmethod
    def backward(ctx, *grads):
        equal = len({grad.shape for grad in grads}) == 1
        return torch.cat(grads if equal else grads[::-1], -1), None


class BlocksInTheOtherDirection(right.CircularBlocks):
    """Goes through the incoming gradient's blocks in the other direction, which is the same for blocks of two.

    Breaks: Function.backward.gradient
    """

    inputs = right.CircularBlocks.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        _, of_w = right.CircularBlocks.backward(ctx, grad)
        return (grad.reshape(-1, len(w)).to(x.dtype) @ right.circulant(w)).view_as(x), of_w
