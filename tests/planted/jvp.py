"""Bugs in ``jvp``, most of them in the tangents of ``x * y`` and ``sin(x)``."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.correct.jvp import FromAStart, JvpAlone
from tests.samples import of_shapes

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(11)
    yield tuple(torch.randn(3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))


class _ProductAndSine(Function):
    """Returns ``(x * y, sin(x))``; correct. The bugs below each change one member."""

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
    """Returns no tangent for the second output.

    Breaks: Function.jvp.count
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t


class ThirdOfTheTangentAlone(JvpAlone):
    """Forgets the factor three of the derivative of a cube, and has no backward that would say otherwise.

    Breaks: Function.jvp.tangent
    """

    inputs = of_shapes((3,))

    @staticmethod
    def jvp(ctx, tangent):
        return JvpAlone.jvp(ctx, tangent) / 3


class OneValuePerInput(_ProductAndSine):
    """Returns a value for each of three inputs from jvp, as backward does.

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
    """Returns the tangents of two outputs in the wrong order.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x.cos() * x_t, x_t * y + x * y_t


class OneTermOfTwo(_ProductAndSine):
    """Forgets a term of the product rule: the tangent of y is ignored.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y, x.cos() * x_t


class NoneForAnOutput(_ProductAndSine):
    """Returns None from jvp for an output that has a derivative.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t, None


class TurnedSign(_ProductAndSine):
    """Returns a tangent with the wrong sign.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t, -x.cos() * x_t


class NoneUnhandled(_ProductAndSine):
    """Asks for None instead of zero tangents, and multiplies by it.

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
    """Multiplies the tangent by the transposed matrix, as backward does.

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
    """Multiplies the tangent by the conjugate, as backward does.

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
    """Returns zero tangents for a rounding, whose backward passes the gradient straight through.

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


class TwiceInSinglePrecision(_ProductAndSine):
    """Doubles the tangent of the product in single precision alone.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, x_t, y_t):
        product, sine = _ProductAndSine.jvp(ctx, x_t, y_t)
        return product * (2 if product.dtype is torch.float32 else 1), sine


class StartForgotten(FromAStart):
    """Forgets the start in one term of the tangent; the start is zero in the sample.

    Breaks: Function.jvp.tangent
    """

    inputs = FromAStart.inputs

    @staticmethod
    def jvp(ctx, rate_t, start_t):
        (rate, _) = ctx.saved_tensors
        return rate_t * rate.cos() + rate * start_t
