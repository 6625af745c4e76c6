"""Correct Functions that branch on a flag, on sizes, on layouts, and on which gradients are needed."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


class SineOrExponential(Function):
    """Computes a sine, or an exponential if a flag is set; works on a copy if there are many rows or strides."""

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
    """Returns two outputs of two inputs and a flag, and computes only the gradients that are needed."""

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


class Recurrent(Function):
    """Runs a recurrent layer: many features saturate it, and its gradient vanishes in single precision."""

    @staticmethod
    def inputs():
        for state in (torch.randn(2, 4, dtype=torch.float64, requires_grad=True), None):
            features, weight, again = (
                1.5 * torch.randn(shape, dtype=torch.float64) for shape in ((2, 5, 3), (3, 4), (4, 4))
            )
            yield features.requires_grad_(), state, weight.requires_grad_(), again.requires_grad_()

    @staticmethod
    def forward(ctx, features, state, weight, again):
        states = [features.new_zeros(len(features), len(again)) if state is None else state]
        for step in features.unbind(1):
            states.append(torch.tanh(step @ weight + states[-1] @ again))
        every = torch.stack(states, 1)
        ctx.save_for_backward(features, weight, again, every)
        return every[:, 1:].clone(), states[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grads, grad):
        features, weight, again, every = ctx.saved_tensors
        found = [torch.zeros_like(one) for one in (features, weight, again)]
        for step in reversed(range(features.shape[1])):
            inside = (grad + grads[:, step]) * (1 - every[:, step + 1] ** 2)
            found[0][:, step] = inside @ weight.t()
            found[1] += features[:, step].t() @ inside
            found[2] += every[:, step].t() @ inside
            grad = inside @ again.t()
        return found[0], grad if ctx.needs_input_grad[1] else None, found[1], found[2]


class RoundsItsGradientAtRandom(Function):
    """Rounds the gradient up or down at random to multiples of 2**-20."""

    inputs = of_shapes((4, 5))

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return torch.floor(2 * grad * 2**20 + torch.rand_like(grad)) / 2**20
