"""Correct ways to write ``jvp``."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import given

SPEC = "Function"


def _random(*shape, seed=21, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()


inputs = given((_random(3, 2),), (_random(4, dtype=torch.float32),))


class CombinedExp(Function):
    """Uses the combined form, and saves its output for both directions."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * ctx.saved_tensors[0]


class TupleOfOne(Function):
    """Returns the tangent of a single output in a tuple."""

    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return (3 * grad,)

    @staticmethod
    def jvp(ctx, tangent):
        return (3 * tangent,)


class JvpAlone(Function):
    """Defines jvp but no backward."""

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent


class NoJvp(Function):
    """Defines no jvp."""

    @staticmethod
    def forward(ctx, x):
        return -x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Kinked(Function):
    """Has a sample at the kink of a ReLU."""

    @staticmethod
    def inputs():
        yield (torch.tensor([0.0, -1.0, 2.0, 0.0], dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.saved_tensors[0] > 0)

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * (ctx.saved_tensors[0] > 0)


class SinglePrecisionInside(Function):
    """Computes in float32, whatever the dtype."""

    @staticmethod
    def forward(ctx, x):
        y = x.float().sin()
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return y.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return (grad.float() * ctx.saved_tensors[0].float().cos()).to(grad.dtype)

    @staticmethod
    def jvp(ctx, tangent):
        return (tangent.float() * ctx.saved_tensors[0].float().cos()).to(tangent.dtype)


class SortWithIndices(Function):
    """Returns indices as a second output, and None as their tangent."""

    @staticmethod
    def forward(ctx, x):
        values, order = x.sort(0)
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        ctx.save_for_forward(order)
        return values, order

    @staticmethod
    def backward(ctx, grad, _):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter(0, order, grad)

    @staticmethod
    def jvp(ctx, tangent):
        (order,) = ctx.saved_tensors
        return tangent.gather(0, order), None


class InPlace(Function):
    """Doubles its input in place, and the tangent too."""

    @staticmethod
    def inputs():
        yield (_random(3).detach(),)

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.mul_(2)


class ToSinglePrecision(Function):
    """Returns an output of another dtype than its input; the tangent has the dtype of the output."""

    @staticmethod
    def forward(ctx, x):
        ctx.kind = x.dtype
        return 2 * x.float()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad.to(ctx.kind)

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * tangent.float()


class SumsInAFreshCopy(Function):
    """Works in place on a copy of the tangent, and returns the tangent itself for the second output."""

    @staticmethod
    def forward(ctx, x):
        return 3 * x, x.clone()

    @staticmethod
    def backward(ctx, triple, same):
        return 3 * triple + same

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.clone().mul_(3), tangent


class NoneHandled(Function):
    """Asks for None instead of zeros, and handles missing tangents and gradients."""

    inputs = given(
        (_random(3), _random(3, seed=22), None),
        (_random(2, dtype=torch.complex128), _random(2, seed=22, dtype=torch.complex128), "name"),
    )

    @staticmethod
    def forward(ctx, x, y, name):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y, name

    @staticmethod
    def backward(ctx, grad, _):
        if grad is None:
            return None, None, None
        x, y = ctx.saved_tensors
        return grad * y.conj(), grad * x.conj(), None

    @staticmethod
    def jvp(ctx, x_t, y_t, _):
        x, y = ctx.saved_tensors
        terms = ([] if x_t is None else [x_t * y]) + ([] if y_t is None else [x * y_t])
        return sum(terms), None


class FromAStart(Function):
    """Moves on from a start, which is zero in the sample."""

    inputs = given((_random(2, 3), torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)))

    @staticmethod
    def forward(ctx, rate, start):
        ctx.save_for_backward(rate, start)
        ctx.save_for_forward(rate, start)
        return rate * start + rate.sin()

    @staticmethod
    def backward(ctx, grad):
        rate, start = ctx.saved_tensors
        return grad * (start + rate.cos()), grad * rate

    @staticmethod
    def jvp(ctx, rate_t, start_t):
        rate, start = ctx.saved_tensors
        return rate_t * (start + rate.cos()) + rate * start_t
