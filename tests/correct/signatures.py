"""Correct classes whose arguments are in another order, or that are defined anew in each call."""

from __future__ import annotations

import torch
from torch.autograd import Function

from conformance import Subject


class _FactorFirst(Function):
    @staticmethod
    def forward(f, x):
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.f = inputs[0]

    @staticmethod
    def backward(ctx, grad):
        return None, grad * ctx.f


FactorFirst = Subject(_FactorFirst, spec="GradFactor", call=lambda function, x, f: function.apply(f, x))


class _FactorLast(Function):
    @staticmethod
    def forward(ctx, name, x, f):
        ctx.f = f
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return None, grad * ctx.f, None


FactorLast = Subject(_FactorLast, spec="GradFactor", call=lambda function, x, f: function.apply("layer 1", x, f))


class _FlagFirst(Function):
    @staticmethod
    def forward(ctx, requires_grad, inp):
        out = torch.empty((0,), dtype=inp.dtype)
        out.set_(inp.untyped_storage(), inp.storage_offset(), inp.shape, inp.stride())
        out.requires_grad = requires_grad
        return out

    @staticmethod
    def backward(ctx, grad):
        return None, grad


FlagFirst = Subject(
    _FlagFirst,
    spec="MakeViewlessTensor",
    call=lambda function, inp, requires_grad: function.apply(requires_grad, inp),
    helpers=(("make_viewless_tensor", lambda *arguments: _viewless(*arguments)),),
)


def _viewless(inp, requires_grad, keep_graph):
    if not inp._is_view():
        return inp
    if keep_graph:
        return _FlagFirst.apply(requires_grad, inp)
    with torch.no_grad():
        return _FlagFirst.apply(requires_grad, inp.detach()).requires_grad_(requires_grad)


def _scaled(x, factor):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, value):
            return value * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * factor

    return Scaled.apply(x)


ClassMadeByACall = Subject(_scaled, inputs=lambda: [(torch.randn(3, 2, dtype=torch.float64, requires_grad=True), 2.0)])
