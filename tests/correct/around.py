"""Correct Functions that ``call=`` combines with others, which have limits of their own."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject

SPEC = "Function"


class _Triple(Function):
    """Uses the combined form, which torch.vmap refuses; refuses gradients that are not contiguous."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        if not grad.is_contiguous():
            raise NotImplementedError("contiguous gradients only")
        return grad * 3


class _Exponential(Function):
    """Supports torch.vmap and gradients of any layout."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (output,) = ctx.saved_tensors
        return grad * output

    @staticmethod
    def vmap(info, in_dims, x):
        return _Exponential.apply(x), in_dims[0]


def _inputs():
    yield (torch.rand(3, 2, dtype=torch.float64, requires_grad=True),)


class _RunsAgain(Function):
    """Runs a function again in backward, which accumulates the gradients of its parameters there."""

    @staticmethod
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        with torch.no_grad():
            return run(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.run(x)
        torch.autograd.backward(y, grad)
        return None, x.grad


def _layer():
    layer = torch.nn.Linear(2, 2, dtype=torch.float64)
    torch.nn.init.eye_(layer.weight)
    torch.nn.init.ones_(layer.bias)
    return layer


class _Solve(Function):
    """Solves a linear system, given a function that multiplies by its matrix."""

    @staticmethod
    def forward(ctx, multiply, b):
        ctx.multiply = multiply
        return b / multiply(torch.ones_like(b))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return None, grad / ctx.multiply(torch.ones_like(grad))


def _multiplying():
    diagonal = torch.tensor([2.0, 3.0], dtype=torch.float64) * 2
    return lambda vector: vector * diagonal


#: Makes a module anew for each call, whose parameters get their gradients in backward.
NewModule = Subject(_RunsAgain, inputs=_inputs, call=lambda function, x: function.apply(_layer(), x))
#: Hands over a function that closes over a tensor, by design.
ClosesOverATensor = Subject(_Solve, inputs=_inputs, call=lambda function, b: function.apply(_multiplying(), b))
#: What is computed before has no vmap.
AfterAnother = Subject(_Exponential, inputs=_inputs, call=lambda function, x: function.apply(_Triple.apply(x)))
#: What is computed afterwards has none, and a backward that refuses some gradients.
BeforeAnother = Subject(_Exponential, inputs=_inputs, call=lambda function, x: _Triple.apply(function.apply(x)))
