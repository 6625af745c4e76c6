"""Functions that are correct under torch.compile, in ways that look wrong."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.planted._square import Square, SquareWithJvp

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn(4, dtype=torch.float64, requires_grad=True),)


class AnotherWayWhenCompiled(Square):
    """Computes the same numbers in another way while being compiled."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square() if torch.compiler.is_compiling() else x * x


class NotesOnCtx(Function):
    """Keeps a shape, a number and a dict on ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape, ctx.options = x.shape, {"factor": 3}
        ctx.rows = len(x)
        return 3 * x.flatten()

    @staticmethod
    def backward(ctx, grad):
        return ctx.options["factor"] * grad.view(ctx.shape) * (ctx.rows > 0)


class TangentToo(SquareWithJvp):
    """Defines jvp, which the compiler does not support by design: it falls back to eager mode."""


class WritesIntoItsInput(Function):
    """Works in place and marks that; compiled on its own it loses its gradient, which is a bug of PyTorch."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad


class NothingToMaterialize(Function):
    """Asks for None instead of zeros, and handles it for either output."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x * x, 3 * x

    @staticmethod
    def backward(ctx, grad, other):
        (x,) = ctx.saved_tensors
        if grad is None:
            return None if other is None else 3 * other
        return 2 * x * grad if other is None else 2 * x * grad + 3 * other


class ThroughNumPy(Square):
    """Computes with NumPy, which the compiler traces."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() ** 2)
