"""Correct Functions that ask for the generated rule, and run into its limits."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.correct.vmap import Generated
from tests.samples import given

SPEC = "Function"


def _random(*shape, seed=43, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()


inputs = given((_random(2, 3),), (_random(3, dtype=torch.float32),), (_random(),))


class ReadsWhatWasSavedForForward(Generated):
    """Reads ``ctx.saved_for_forward`` in jvp, which the generated rule does not unwrap."""

    @staticmethod
    def jvp(ctx, tangent):
        (y,) = ctx.saved_for_forward
        return tangent * y


class SavesMoreForForward(Function):
    """Saves one tensor more for jvp than for backward; the rule keeps the batch dimensions of only one of the saves."""

    generate_vmap_rule = True

    inputs = given((_random(3), _random(2, 3, seed=44)))

    @staticmethod
    def forward(x, y):
        return x.mul(y).sum(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (grad * y).sum(0), (grad * x).expand_as(y)

    @staticmethod
    def jvp(ctx, x_tangent, y_tangent):
        x, y, _ = ctx.saved_tensors
        return (x_tangent * y + x * y_tangent).sum(0)


class NoTangentOfTheSigns(Function):
    """Marks an output non-differentiable and returns None as its tangent: the generated rule loses the mark."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.abs(), x.sign()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, sign = output
        ctx.mark_non_differentiable(sign)
        ctx.save_for_backward(sign)
        ctx.save_for_forward(sign)

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * ctx.saved_tensors[0], None


class NoTangentOfTheMask(NoTangentOfTheSigns):
    """Returns a boolean mask, whose dtype has no tangents."""

    @staticmethod
    def forward(x):
        return x.relu(), x > 0


class DoublesInPlace(Function):
    """Works in place and marks that; the generated rule loses the mark, and PyTorch then refuses every batch."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.mul_(2)


class SumsOverDimensions(Function):
    """Takes dimensions in a tuple, whose entries the generated rule counts as inputs when it maps tangents."""

    generate_vmap_rule = True

    inputs = given((_random(2, 3, 2), (0, 2)), (_random(2, 3), [1]))

    @staticmethod
    def forward(x, dims):
        return x.sum(dims)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dims = inputs
        ctx.shape = x.shape
        ctx.dims = dims

    @staticmethod
    def backward(ctx, grad):
        for dim in sorted(ctx.dims):
            grad = grad.unsqueeze(dim)
        return grad.expand(ctx.shape) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.sum(ctx.dims)


class MixesWithConstants(Function):
    """Takes constant tensors in a dict, one of which may be batched."""

    generate_vmap_rule = True

    @staticmethod
    def inputs():
        yield _random(3), {"scale": _random(3, seed=45).detach(), "power": 3}, _random(2, 3, seed=46)

    @staticmethod
    def forward(x, options, y):
        return x ** options["power"] * options["scale"] + y.sum(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, options, y = inputs
        ctx.power = options["power"]
        ctx.rows = y.shape[0]
        ctx.save_for_backward(x, options["scale"])
        ctx.save_for_forward(x, options["scale"])

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        slope = ctx.power * x ** (ctx.power - 1) * scale
        return (
            grad * slope if ctx.needs_input_grad[0] else None,
            None,
            grad.expand(ctx.rows, -1) if ctx.needs_input_grad[2] else None,
        )

    @staticmethod
    def jvp(ctx, x_tangent, _, y_tangent):
        x, scale = ctx.saved_tensors
        return x_tangent * ctx.power * x ** (ctx.power - 1) * scale + y_tangent.sum(0)
