"""Bugs in implementations of GradFactor."""

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
    """The value is scaled too, as if it were a multiplication.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x * f


class MadeContiguous(_Right):
    """The result is laid out anew.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x.detach().clone(memory_format=torch.contiguous_format)


class SinglePrecision(_Right):
    """The value goes through float32, or complex64.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return x.to(torch.complex64 if x.is_complex() else torch.float32).to(x.dtype, copy=True)


class OneIsAdded(_Right):
    """Scales by adding a multiple of itself and taking it away, which rounds.

    Breaks: GradFactor.forward.identity
    """

    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        return (x + x * f) - x * f


class Unscaled(_Right):
    """The factor is forgotten on the way back.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y, None


class Divided(_Right):
    """Divides by the factor.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y / ctx.f, None


class NoSign(_Right):
    """A negative factor does not turn the gradient round.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * abs(ctx.f), None


class Clamped(_Right):
    """The factor is kept between -1 and 1.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * min(max(ctx.f, -1), 1), None


class NoneForZero(_Right):
    """A factor of zero gives no gradient instead of a gradient of zeros.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return (grad_y * ctx.f if ctx.f else None), None


class FactorOfTheLastCall(_Right):
    """The factor is kept on the class, where the next call finds it.

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
    """The factor is cut down to an integer.

    Breaks: GradFactor.backward.scaled
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * int(ctx.f), None


class GradientForF(_Right):
    """Returns a gradient for the factor too, where it is a whole number.

    Breaks: GradFactor.backward.none-for-f
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * ctx.f, (grad_y.sum() if isinstance(ctx.f, int) else None)


class OneValue(_Right):
    """For a factor of one the gradient is handed on alone.

    Breaks: GradFactor.backward.none-for-f
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y if ctx.f == 1 else (grad_y * ctx.f, None)


class DetachedGradient(_Right):
    """The gradient is computed outside the graph.

    Breaks: GradFactor.backward.twice
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y.detach() * ctx.f, None


class ScalesOnce(_Right):
    """The gradient of the gradient passes unscaled.

    Breaks: GradFactor.backward.twice
    """

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y + (grad_y * (ctx.f - 1)).detach(), None


class TangentUnscaled(_Right):
    """The tangent is that of the identity.

    Breaks: GradFactor.jvp.scaled
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.clone()


class TangentDivided(_Separate):
    """The tangent is divided, as if it undid what backward does.

    Breaks: GradFactor.jvp.scaled
    """

    generate_vmap_rule = True
    vmap = Function.vmap

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent / ctx.f


class FirstDimensionOnly(_Separate):
    """vmap returns out_dim 0, wherever the samples are.

    Breaks: GradFactor.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        return _Separate.apply(x, f), 0


class UnscaledUnderVmap(_Separate):
    """vmap passes the whole batch on without the Function: gradients are not scaled.

    Breaks: GradFactor.vmap.batched
    """

    generate_vmap_rule = True
    vmap = Function.vmap

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y * (1 if torch._C._functorch.is_batchedtensor(grad_y) else ctx.f), None


class NoValueUnderVmap(_Separate):
    """vmap scales the values.

    Breaks: GradFactor.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        return _Separate.apply(x, f) * f, in_dims[0]


class FirstFactorForAll(_Separate):
    """Under vmap the first sample's factor is every sample's.

    Breaks: GradFactor.vmap.mapped-factor
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        first = f.select(in_dims[1], 0).item() if isinstance(f, torch.Tensor) and in_dims[1] is not None else f
        return _Separate.apply(x, first), in_dims[0]


class FactorRefusedInRiddles(_Separate):
    """A mapped factor ends in an error about something else.

    Breaks: GradFactor.vmap.mapped-factor
    """

    @staticmethod
    def vmap(info, in_dims, x, f):
        if in_dims[1] is not None:
            raise RuntimeError("a Tensor with 3 elements cannot be converted to Scalar")
        return _Separate.apply(x, f), in_dims[0]
