"""Bugs that show under torch.compile alone."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)


class CoarserWhenCompiled(Square):
    """Computes in half precision if it is being compiled.

    Breaks: Function.compile.agrees
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.half() * x.half()).to(x) if torch.compiler.is_compiling() else x * x


class NotesThatAreLost(Square):
    """Keeps a number among the metadata of its node, which the compiler makes anew.

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
    """Backward reads a flag that the caller sets during forward: compiled, it is read then.

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
    """The factor of the gradient is put into an argument after the call, when a compiled backward has been made.

    Breaks: Function.compile.agrees
    """
    options = {"factor": 1.0}
    y = _FactorFromADict.apply(x, options)
    options["factor"] = 3.0
    return y


@torch.compiler.allow_in_graph
class OnlyForPlainTensors(Square):
    """Has an exact backward for plain tensors and a rough one for others; what the compiler runs it with is another.

    Breaks: Function.compile.agrees
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad if type(x) is torch.Tensor else (2 * x.half() * grad.half()).to(grad)


class BranchesOnItsValues(Square):
    """Takes another way, to the same numbers, if a value is large.

    Breaks: Function.compile.fullgraph
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2 if x.abs().max() > 1000 else x * x


class AsksForANumberInBackward(Square):
    """Leaves the work out if the gradient is zero.

    Breaks: Function.compile.fullgraph
    """

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad if grad.abs().sum().item() > 0 else torch.zeros_like(x)


_calls: list[int] = []


class CountsItsBackwards(Square):
    """Adds to a list outside itself in backward.

    Breaks: Function.compile.fullgraph
    """

    @staticmethod
    def backward(ctx, grad):
        _calls.append(1)
        (x,) = ctx.saved_tensors
        return 2 * x * grad
