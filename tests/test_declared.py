"""A declared gradient is compared with its formula at other sizes and numbers too, where the formula speaks of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import Function

from conformance import ConformanceError, check

SCALE = 0.7


def _quantized(mistake):
    """Round to steps of a learned size, and clip; the size has a gradient that is scaled down by the number of them."""

    class Quantized(Function):
        @staticmethod
        def forward(ctx, x, step, most):
            ctx.save_for_backward(x, step)
            ctx.most = most
            return (x / step).round().clamp(-most, most) * step

        @staticmethod
        def backward(ctx, grad):
            x, step = ctx.saved_tensors
            count = 24 if mistake == "a fixed count" else max(1, x.numel())
            scaled = x / step
            is_inside = (scaled.abs() < ctx.most).to(grad.dtype)
            own = is_inside * (scaled.round() - scaled) + (1 - is_inside) * ctx.most * scaled.sign()
            passed = grad if mistake == "not clipped" else grad * is_inside
            return passed, (grad * own).sum() / math.sqrt(count * 7), None

    return Quantized


def _quantized_formula(args, grads):
    x, step, most = args
    scaled = x / step
    is_inside = scaled.abs() < most
    own = torch.where(is_inside, scaled.round() - scaled, most * scaled.sign())
    return grads[0] * is_inside, (grads[0] * own).sum() / math.sqrt(max(1, x.numel()) * 7), None


def _surrogate(mistake):
    """A spike, with the slope of an arc tangent of some steepness."""

    class Spike(Function):
        @staticmethod
        def forward(ctx, x, steepness):
            ctx.save_for_backward(x)
            ctx.steepness = steepness
            return (x > 0).to(x.dtype) * steepness

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            steepness = 2.0 if mistake else ctx.steepness
            return grad * steepness / (1 + (steepness * x) ** 2), None

    return Spike


def _surrogate_formula(args, grads):
    x, steepness = args
    return grads[0] * steepness / (1 + (steepness * x) ** 2), None


def _limited(mistake):
    """Pass the gradient on, its norm limited to a number that the loss of the sample does not reach."""

    class Limited(Function):
        @staticmethod
        def forward(ctx, x, most):
            ctx.most = most
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            size = grad.norm(dim=-1, keepdim=True) if mistake else grad.norm()
            return grad * (ctx.most / size).clamp(max=1), None

    return Limited


def _limited_formula(args, grads):
    return (grads[0] * (args[1] / grads[0].norm()).clamp(max=1),)


class Reversed(Function):
    """Turns the gradient round, times a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.factor * grad, None


class KeptInSinglePrecision(Function):
    """Keeps its factor in a tensor of single precision, which holds that of the sample exactly, and not every other."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(torch.tensor(factor))
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        (factor,) = ctx.saved_tensors
        return factor * grad, None


class LeavesTheRange(Function):
    """The slope of a logistic function, of which one power is infinite for numbers that are far below zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.exp(-x) / (torch.exp(-x) + 1) ** 2


def _logistic_slope(args, grads):
    return (grads[0] * torch.sigmoid(args[0]) * torch.sigmoid(-args[0]),)


def _numbers(*shape):
    return (0.3 * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).requires_grad_()


def _step():
    return torch.tensor(0.3, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("function", "formula", "sample"),
    [
        (_quantized("a fixed count"), _quantized_formula, (_numbers(4, 6), _step(), 7)),
        (_quantized("not clipped"), _quantized_formula, (_numbers(4, 6), _step(), 7)),
        (_surrogate("a fixed steepness"), _surrogate_formula, (_numbers(5), 2.0)),
        (_limited("row by row"), _limited_formula, (_numbers(4, 3), 100.0)),
    ],
    ids=["at another size", "among large numbers", "with another constant", "for a larger loss"],
)
def test_a_gradient_that_is_declared_otherwise_elsewhere_is_noticed(function, formula, sample):
    """The sample itself shows none of these mistakes."""
    said = r"FAIL  Function\.backward\.gradient[^F]*compared[\s|]*with[\s|]*the declared"
    with pytest.raises(ConformanceError, match=said):
        check(function, sample, formula=formula)


@pytest.mark.parametrize(
    ("function", "formula", "sample"),
    [
        (_quantized(""), _quantized_formula, (_numbers(4, 6), _step(), 7)),
        (_surrogate(""), _surrogate_formula, (_numbers(5), 2.0)),
        (_limited(""), _limited_formula, (_numbers(4, 3), 100.0)),
        (KeptInSinglePrecision, lambda args, grads: (args[1] * grads[0],), (_numbers(5), 0.5)),
        (LeavesTheRange, _logistic_slope, (10 * _numbers(5).detach(),)),
        (Reversed, lambda args, grads: (-args[1] * grads[0],), (_numbers(5), SCALE)),
        (Reversed, lambda args, grads: (-SCALE * grads[0],), (_numbers(5), SCALE)),
        (
            Reversed,
            lambda args, grads: (-SCALE * torch.ones(4, 3, dtype=torch.float64) * grads[0],),
            (_numbers(4, 3), SCALE),
        ),
    ],
    ids=[
        "steps",
        "spikes",
        "limits",
        "single precision",
        "out of range",
        "a factor",
        "a factor of the sample",
        "a shape of the sample",
    ],
)
def test_a_formula_need_not_speak_of_other_samples(function, formula, sample):
    """A formula may be right for the sample alone: it then raises elsewhere, or does not follow what changed."""
    check(function, sample, formula=formula)
