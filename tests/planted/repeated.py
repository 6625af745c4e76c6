"""Bugs that show where one tensor is passed for two arguments."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


class CountsTheSameTensorTwice(Function):
    """Adds the gradients up itself where both arguments are one tensor, which autograd does too.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (
            torch.randn(3, dtype=torch.float64, requires_grad=True),
            torch.randn(3, dtype=torch.float64, requires_grad=True),
        )

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
