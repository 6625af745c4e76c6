"""Bugs of Functions for which PyTorch's generated rule is silently wrong, or which it refuses."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import given

SPEC = "Function"


def _random(*shape, seed=45):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


class SavesInTwoOrders(Function):
    """Saves its inputs in different orders for backward and jvp: under the generated rule one gets the other's in_dims.

    Breaks: Function.vmap.batched
    """

    generate_vmap_rule = True

    inputs = given((_random(3), _random(3, seed=46)))

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(y, x)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    @staticmethod
    def jvp(ctx, x_tangent, y_tangent):
        y, x = ctx.saved_tensors
        return x_tangent * y + x * y_tangent


class AddsUpTheWholeBatch(Function):
    """Reads ``ctx.saved_for_forward`` in jvp, which holds the whole batch, and sums over all of it.

    Breaks: Function.vmap.batched
    """

    generate_vmap_rule = True

    inputs = given((_random(3),))

    @staticmethod
    def forward(x):
        return x.square().sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_for_forward
        return 2 * (tangent * x).sum()


class NamedTuple(Function):
    """Returns the named tuple of torch.topk, which the generated rule does not support.

    Breaks: Function.vmap.batched
    """

    generate_vmap_rule = True

    inputs = given((_random(3, 5),))

    @staticmethod
    def forward(x):
        return torch.topk(x, 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.width = inputs[0].shape[-1]

    @staticmethod
    def backward(ctx, grad, _):
        (places,) = ctx.saved_tensors
        return grad.new_zeros((*grad.shape[:-1], ctx.width)).scatter(-1, places, grad)


class TwoOutputs(Function):
    """Returns an output of one input only: if that is not batched, the generated rule counts its gradient for every
    sample.

    Breaks: Function.vmap.batched
    """

    generate_vmap_rule = True

    inputs = given((_random(3), _random(3, seed=46)))

    @staticmethod
    def forward(x, y):
        return 2 * x, x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_double, grad_product):
        x, y = ctx.saved_tensors
        return 2 * grad_double + grad_product * y, grad_product * x
