"""Bugs that show only under torch.compile."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)


class CoarserWhenCompiled(Square):
    """Computes in half precision while being compiled.

    Breaks: Function.compile.agrees
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.half() * x.half()).to(x) if torch.compiler.is_compiling() else x * x


class NotesThatAreLost(Square):
    """Keeps a number in the metadata of its node, which the compiler replaces.

    Breaks: Function.compile.agrees
    """

    @staticmethod
    def forward(ctx, x):
        ctx.metadata["factor"] = 2
        return Square.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.metadata.get("factor", 1) * x * grad


class _Now:
    is_forward = False


class _AsksWhatRuns(Square):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return x * grad if _Now.is_forward else 2 * x * grad


def backward_asks_what_runs(x):
    """Reads in backward a flag that its caller sets during forward: compiling reads it early.

    Breaks: Function.compile.agrees
    """
    _Now.is_forward = True
    try:
        return _AsksWhatRuns.apply(x)
    finally:
        _Now.is_forward = False


class _FactorFromADict(Function):
    @staticmethod
    def forward(ctx, x, options):
        ctx.options = options
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.options["factor"], None


def factor_comes_late(x):
    """Sets the factor of the gradient after the call, when compiled code has already read it.

    Breaks: Function.compile.agrees
    """
    options = {"factor": 1.0}
    y = _FactorFromADict.apply(x, options)
    options["factor"] = 3.0
    return y


@torch.compiler.allow_in_graph
class OnlyForPlainTensors(Square):
    """Computes an exact gradient for plain tensors and a rough one for subclasses, such as the compiler's.

    Breaks: Function.compile.agrees
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad if type(x) is torch.Tensor else (2 * x.half() * grad.half()).to(grad)


class BranchesOnItsValues(Square):
    """Branches on whether a value is large, which the compiler cannot trace; the numbers are the same.

    Breaks: Function.compile.fullgraph
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2 if x.abs().max() > 1000 else x * x


class AsksForANumberInBackward(Square):
    """Branches on whether the gradient is zero, which the compiler cannot trace.

    Breaks: Function.compile.fullgraph
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad if grad.abs().sum().item() > 0 else torch.zeros_like(x)


_calls: list[int] = []


class CountsItsBackwards(Square):
    """Appends to a global list in backward, which the compiler cannot trace.

    Breaks: Function.compile.fullgraph
    """

    @staticmethod
    def backward(ctx, grad):
        _calls.append(1)
        (x,) = ctx.saved_tensors
        return 2 * x * grad
