"""Bugs in ``jvp``: the tangent of ``x * y`` and ``sin(x)`` and what can go wrong on the way."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(11)
    yield tuple(torch.randn(3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))


class _ProductAndSine(Function):
    """No bug yet: ``(x * y, sin(x))`` with both derivatives; the bugs below each change one member."""

    @staticmethod
    def forward(x, y):
        return x * y, x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, product, sine):
        x, y = ctx.saved_tensors
        return product * y + sine * x.cos(), product * x

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t, x.cos() * x_t


class OneValueTooFew(_ProductAndSine):
    """jvp leaves the second output out.

    Breaks: Function.jvp.count
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t


class OneValuePerInput(_ProductAndSine):
    """jvp is written like backward, with a value for each of three inputs.

    Breaks: Function.jvp.count
    """

    @staticmethod
    def forward(x, y, scale=1.0):
        return x * y, x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx, product, sine):
        return *_ProductAndSine.backward(ctx, product, sine), None

    @staticmethod
    def jvp(ctx, x_t, y_t, _):
        return *_ProductAndSine.jvp(ctx, x_t, y_t), None


class Swapped(_ProductAndSine):
    """The tangents come in the order of the inputs, not of the outputs.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x.cos() * x_t, x_t * y + x * y_t


class OneTermOfTwo(_ProductAndSine):
    """The product rule has one term: the tangent of y is ignored.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y, x.cos() * x_t


class NoneForAnOutput(_ProductAndSine):
    """jvp returns None for an output that has a derivative.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t, None


class TurnedSign(_ProductAndSine):
    """The derivative of the sine with the sign of that of the cosine.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t, -x.cos() * x_t


class NoneUnhandled(_ProductAndSine):
    """Missing tangents are asked for as None, and then multiplied.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        _ProductAndSine.setup_context(ctx, inputs, output)

    @staticmethod
    def backward(ctx, product, sine):
        x, y = ctx.saved_tensors
        one = torch.zeros_like(x)
        if product is not None:
            one = one + product * y
        if sine is not None:
            one = one + sine * x.cos()
        return one, None if product is None else product * x


class TransposedJacobian(Function):
    """jvp of a matrix product multiplies with the transposed matrix, as backward has to.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(12)
        yield torch.randn(3, dtype=torch.float64, generator=generator).requires_grad_(), 0.3

    @staticmethod
    def _matrix(x, skew):
        return torch.eye(3, dtype=x.dtype) + torch.full((3, 3), skew, dtype=x.dtype).triu(1)

    @staticmethod
    def forward(x, skew):
        return TransposedJacobian._matrix(x, skew) @ x

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.skew = inputs

    @staticmethod
    def backward(ctx, grad):
        return TransposedJacobian._matrix(grad, ctx.skew).T @ grad, None

    @staticmethod
    def jvp(ctx, x_t, _):
        return TransposedJacobian._matrix(x_t, ctx.skew).T @ x_t


class Conjugated(Function):
    """The complex tangent is multiplied by the conjugate, which only backward may do.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(13)
        yield (torch.randn(3, dtype=torch.complex128, generator=generator).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.conj()

    @staticmethod
    def jvp(ctx, x_t):
        (x,) = ctx.saved_tensors
        return 2 * x_t * x.conj()


class BackwardDisagrees(Function):
    """A rounding with a straight-through backward whose jvp is the true derivative: zero.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(14)
        yield (torch.randn(5, dtype=torch.float64, generator=generator).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad

    @staticmethod
    def jvp(ctx, x_t):
        return torch.zeros_like(x_t)
