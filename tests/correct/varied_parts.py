"""Correct Functions whose backward skips work: for unused outputs, and for inputs that need no gradient."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class ThreeParts(Function):
    """Returns three outputs of one input, asks for None instead of zeros, and handles it."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.exp(), x * x

    @staticmethod
    def slopes(ctx):
        (x,) = ctx.saved_tensors
        return x.cos(), x.exp(), 2 * x

    @staticmethod
    def backward(ctx, *grads):
        terms = [grad * slope for grad, slope in zip(grads, ThreeParts.slopes(ctx), strict=True) if grad is not None]
        return sum(terms) if terms else None


class ThreePartsWithAPlace(Function):
    """Returns values, their indices and the mean: the indices are marked non-differentiable."""

    @staticmethod
    def forward(ctx, x):
        values, places = x.max(-1)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values, places, x.mean(-1)

    @staticmethod
    def backward(ctx, of_values, _, of_mean):
        (places,) = ctx.saved_tensors
        share = (of_mean / ctx.shape[-1])[..., None].expand(ctx.shape)
        return share + torch.zeros_like(share).scatter(-1, places[..., None], of_values[..., None])


class ProductAndQuotient(Function):
    """Computes only those parts of the gradients that are needed and have an incoming gradient."""

    @staticmethod
    def inputs():
        yield tuple((torch.rand(3, 4, dtype=torch.float64) + 0.5).requires_grad_() for _ in range(2))

    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w)
        return x * w, x / w

    @staticmethod
    def backward(ctx, of_product, of_quotient):
        x, w = ctx.saved_tensors
        parts = [torch.zeros_like(x) if needed else None for needed in ctx.needs_input_grad]
        if ctx.needs_input_grad[0]:
            parts[0] = parts[0] if of_product is None else parts[0] + of_product * w
            parts[0] = parts[0] if of_quotient is None else parts[0] + of_quotient / w
        if ctx.needs_input_grad[1]:
            parts[1] = parts[1] if of_product is None else parts[1] + of_product * x
            parts[1] = parts[1] if of_quotient is None else parts[1] - of_quotient * x / (w * w)
        return tuple(parts)


class ThreeFactors(Function):
    """Multiplies three inputs; backward shares a product between the gradients that are needed."""

    inputs = of_shapes((3, 2), (3, 2), (3, 2))

    @staticmethod
    def forward(ctx, x, y, z):
        ctx.save_for_backward(x, y, z)
        return x * y * z

    @staticmethod
    def backward(ctx, grad):
        x, y, z = ctx.saved_tensors
        of_x, of_y, of_z = ctx.needs_input_grad
        shared = grad * z if of_x or of_y else None
        return shared * y if of_x else None, shared * x if of_y else None, grad * x * y if of_z else None


class SavesWhatIsNeeded(Function):
    """Saves only what the gradients that are needed depend on."""

    inputs = of_shapes((3, 2), (3, 2))

    @staticmethod
    def forward(ctx, x, w):
        of_x, of_w = ctx.needs_input_grad
        ctx.save_for_backward(w if of_x else None, x if of_w else None)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        w, x = ctx.saved_tensors
        return None if w is None else grad * w, None if x is None else grad * x
