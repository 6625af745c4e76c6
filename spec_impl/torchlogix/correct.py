"""Correct implementations of GradFactor in other styles."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class AsPublished(Function):
    """Returns the input itself, and keeps the factor on ctx."""

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * ctx.f, None


class ByVjp(Function):
    """Defines vjp instead of backward, and returns view_as of the input."""

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x.view_as(x)

    @staticmethod
    def vjp(ctx, grad_y):
        return ctx.f * grad_y, None


class ByClone(Function):
    """Returns a copy; backward works in place on a copy of the gradient."""

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y):
        return grad_y.clone().mul_(ctx.f), None


class SavedFactor(Function):
    """Saves the factor as a tensor."""

    @staticmethod
    def forward(ctx, x, f):
        ctx.save_for_backward(torch.tensor(float(f), dtype=torch.float64))
        return x.detach()

    @staticmethod
    def backward(ctx, grad_y):
        (f,) = ctx.saved_tensors
        return grad_y * f.item(), None


class AskedForVmap(Function):
    """Uses the separate form with a generated vmap rule and a jvp."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, f=1.0):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.f = inputs[1]

    @staticmethod
    def backward(ctx, grad_y):
        return ctx.f * grad_y, None

    @staticmethod
    def jvp(ctx, x_t, _):
        return ctx.f * x_t
