"""Correct Functions that `call=` uses together with others which cannot do as much."""

from __future__ import annotations

import torch
from torch.autograd import Function

from conformance import Subject

SPEC = "Function"


class _Triple(Function):
    """In the combined form, which torch.vmap refuses; its backward refuses gradients that are not contiguous."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        if not grad.is_contiguous():
            raise NotImplementedError("contiguous gradients only")
        return grad * 3


class _Exponential(Function):
    """Can do all of that."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (output,) = ctx.saved_tensors
        return grad * output

    @staticmethod
    def vmap(info, in_dims, x):
        return _Exponential.apply(x), in_dims[0]


def _inputs():
    yield (torch.rand(3, 2, dtype=torch.float64, requires_grad=True),)


#: What is computed before has no vmap.
AfterAnother = Subject(_Exponential, inputs=_inputs, call=lambda function, x: function.apply(_Triple.apply(x)))
#: What is computed afterwards has none, and a backward that refuses some gradients.
BeforeAnother = Subject(_Exponential, inputs=_inputs, call=lambda function, x: _Triple.apply(function.apply(x)))
