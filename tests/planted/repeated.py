"""Bugs that show if one tensor is passed for two arguments."""

from __future__ import annotations

from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"


class CountsTheSameTensorTwice(Function):
    """Adds the gradients of two arguments if they are the same tensor, which autograd then does again.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3,), (3,))

    @staticmethod
    def forward(ctx, query, key):
        ctx.is_self = query.data_ptr() == key.data_ptr()
        ctx.save_for_backward(query, key)
        return query * key

    @staticmethod
    def backward(ctx, grad):
        query, key = ctx.saved_tensors
        if ctx.is_self:
            return grad * (query + key), grad * (query + key)
        return grad * key, grad * query
