"""Correct Functions that depend on whether weights are a parameter, or on attributes set by their owner."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

_DOUBLE = torch.float64


class Linear(Function):
    """Multiplies by weights, parameters or not."""

    inputs = of_shapes((4, 3), (3, 2))

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


class CopiesAParameter(Linear):
    """Saves a copy of weights that are a parameter, since an optimizer may change them before backward."""

    inputs = Linear.inputs

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w.detach().clone() if isinstance(w, torch.nn.Parameter) else w)
        return x @ w

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return Linear.backward(ctx, grad)


class ReadsWhatItsOwnerWrote(Linear):
    """Reads an attribute that the owner of the weights has set on them."""

    @staticmethod
    def inputs():
        x, w = (torch.randn(shape, dtype=_DOUBLE, requires_grad=True) for shape in ((4, 3), (3, 2)))
        w.partition_dim = 0
        yield x, w

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, w):
        if w.partition_dim != 0:
            raise ValueError("weights have to be cut along dimension 0")
        return Linear.forward(ctx, x, w)


class NeedsMainGrad(Linear):
    """Requires weights with a ``main_grad``, and accumulates the gradient there as well."""

    @staticmethod
    def inputs():
        x, w = (torch.randn(shape, dtype=_DOUBLE, requires_grad=True) for shape in ((4, 3), (3, 2)))
        w.main_grad = torch.zeros(3, 2, dtype=torch.float32)
        yield x, w

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, w):
        ctx.add = w.main_grad.add_
        return Linear.forward(ctx, x, w)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        of_x, of_w = Linear.backward(ctx, grad)
        ctx.add(of_w)
        return of_x, of_w
