"""Bugs that show if one tensor is passed for two arguments."""

from __future__ import annotations

from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"


class CountsTheSameTensorTwice(Function):
    """Adds the gradients up itself if both arguments are one tensor, which autograd does too.

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
