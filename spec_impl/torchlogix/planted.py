"""Planted bugs in implementations of GradFactor."""

from __future__ import annotations

import torch
from torch.autograd import Function


class _Right(Function):
    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x.detach()

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * ctx.f, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * ctx.f


class _Separate(_Right):
    @staticmethod
    def forward(x, f):
        return x.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.f = inputs

    @staticmethod
    def vmap(info, in_dims, x, f):
        return _Separate.apply(x, f), in_dims[0]


class ScalesForward(_Right):
    """Scales the value too, as if it were a multiplication.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x * f


class MadeContiguous(_Right):
    """Returns a contiguous copy, so the strides are lost.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x.detach().clone(memory_format=torch.contiguous_format)


class SinglePrecision(_Right):
    """Converts the value to float32 or complex64 and back.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x.to(torch.complex64 if x.is_complex() else torch.float32).to(x.dtype, copy=True)


class OneIsAdded(_Right):
    """Adds a multiple of the input and subtracts it again, which rounds.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return (x + x * f) - x * f


class Unscaled(_Right):
    """Forgets the factor in backward.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y, None


class Divided(_Right):
    """Divides by the factor in backward.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y / ctx.f, None


class NoSign(_Right):
    """Ignores the sign of the factor.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * abs(ctx.f), None


class Clamped(_Right):
    """Clamps the factor between -1 and 1.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * min(max(ctx.f, -1), 1), None


class NoneForZero(_Right):
    """Returns None for a factor of zero instead of a gradient of zeros.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return (grad_y * ctx.f if ctx.f else None), None


class FactorOfTheLastCall(_Right):
    """Keeps the factor on the class, where the next call overwrites it.

    Breaks: GradFactor.backward.scaled
    """

    f = 1.0

    @staticmethod
    def forward(ctx, x, f):
        FactorOfTheLastCall.f = ctx.f = f
        return x.detach()

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * FactorOfTheLastCall.f, None


class WholeFactors(_Right):
    """Truncates the factor to an integer.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * int(ctx.f), None


class GradientForF(_Right):
    """Returns a gradient for the factor too, if it is an int.

    Breaks: GradFactor.backward.none-for-f
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * ctx.f, (grad_y.sum() if isinstance(ctx.f, int) else None)


class OneValue(_Right):
    """Returns one gradient instead of two if the factor is one.

    Breaks: GradFactor.backward.none-for-f
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y if ctx.f == 1 else (grad_y * ctx.f, None)


class DetachedGradient(_Right):
    """Computes the gradient outside the graph.

    Breaks: GradFactor.backward.twice
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y.detach() * ctx.f, None


class ScalesOnce(_Right):
    """Leaves the second derivative unscaled.

    Breaks: GradFactor.backward.twice
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y + (grad_y * (ctx.f - 1)).detach(), None


class TangentUnscaled(_Right):
    """Returns the tangent unscaled.

    Breaks: GradFactor.jvp.scaled
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.clone()


class TangentDivided(_Separate):
    """Divides the tangent by the factor, as if jvp were the inverse of backward.

    Breaks: GradFactor.jvp.scaled
    """

    generate_vmap_rule = True
    vmap = Function.vmap

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent / ctx.f


class FirstDimensionOnly(_Separate):
    """Returns out_dim 0 from vmap, wherever the batch dimension is.

    Breaks: GradFactor.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        return _Separate.apply(x, f), 0


class UnscaledUnderVmap(_Separate):
    """Leaves gradients unscaled under vmap.

    Breaks: GradFactor.vmap.batched
    """

    generate_vmap_rule = True
    vmap = Function.vmap

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * (1 if torch._C._functorch.is_batchedtensor(grad_y) else ctx.f), None


class NoValueUnderVmap(_Separate):
    """Scales the values in vmap.

    Breaks: GradFactor.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        return _Separate.apply(x, f) * f, in_dims[0]


class FirstFactorForAll(_Separate):
    """Uses the first sample's factor for all samples under vmap.

    Breaks: GradFactor.vmap.mapped-factor
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        first = f.select(in_dims[1], 0).item() if isinstance(f, torch.Tensor) and in_dims[1] is not None else f
        return _Separate.apply(x, first), in_dims[0]


class FactorRefusedInRiddles(_Separate):
    """Raises an error about something else if the factor is batched.

    Breaks: GradFactor.vmap.mapped-factor
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        if in_dims[1] is not None:
            raise RuntimeError("a Tensor with 3 elements cannot be converted to Scalar")
        return _Separate.apply(x, f), in_dims[0]
