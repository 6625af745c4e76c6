"""Correct Functions that go several ways: by flag, size, layout, and by what is asked of them."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


class SineOrExponential(Function):
    """A sine, or an exponential if it is told to; of many rows or rows that lie otherwise it works on a copy."""

    inputs = of_shapes((3, 4), others=(False,))

    @staticmethod
    def forward(ctx, x, exponential):
        ctx.save_for_backward(x)
        ctx.exponential = exponential
        return x.exp() if exponential else x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if len(x) > 64 or not x.is_contiguous():
            x = x.clone(memory_format=torch.contiguous_format)
        return grad * (x.exp() if ctx.exponential else x.cos()), None


class GatedProduct(Function):
    """Two outputs of two inputs and a flag, each gradient made of what it needs."""

    inputs = of_shapes((3, 4), (3, 4), others=(False,))

    @staticmethod
    def forward(ctx, x, gate, scaled):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, gate)
        ctx.factor = 0.5 if scaled else 1.0
        return ctx.factor * x * gate, gate.sin()

    @staticmethod
    def backward(ctx, of_product, of_sine):
        x, gate = ctx.saved_tensors
        of_x = of_gate = None
        if ctx.needs_input_grad[0] and of_product is not None:
            of_x = ctx.factor * of_product * gate
        if ctx.needs_input_grad[1]:
            terms = [] if of_product is None else [ctx.factor * of_product * x]
            terms += [] if of_sine is None else [of_sine * gate.cos()]
            of_gate = sum(terms) if terms else None
        return of_x, of_gate, None
