"""Correct Functions whose declared gradient is not linear in the incoming one."""

from __future__ import annotations

import math

from torch.autograd import Function

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject

SPEC = "Function"


def _rounded(x, step, most):
    return ((x / step).round() * step).clamp(-most, most)


class _Rounded(Function):
    """Rounds to multiples of a step, up to a largest one, and passes the gradient on as it is."""

    @staticmethod
    def forward(ctx, x, step, most):
        return _rounded(x, step, most)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class _RoundsItsGradient(Function):
    """Rounds the gradient alone, which passes straight through once more where it is differentiated again."""

    @staticmethod
    def forward(ctx, x, step, most):
        ctx.options = step, most
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return _Rounded.apply(grad, *ctx.options), None, None


def _of_the_gradient(args, grads):
    return _rounded(grads[0], *args[1:]), None, None


rounds_finely = Subject(_RoundsItsGradient, inputs=drawn((4, 5), 0.01, 1.0), formula=_of_the_gradient)
rounds_coarsely = Subject(_RoundsItsGradient, inputs=drawn((4, 5), 0.25, math.inf), formula=_of_the_gradient)
