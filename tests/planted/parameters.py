"""Bugs in the parameters of methods: PyTorch hands them more or fewer values than they take."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(17)
    yield tuple(torch.randn(3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))


class _Product(Function):
    """No bug yet: ``x * y`` in the separate form; the bugs below each change one member."""

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


class CtxInBothForms(_Product):
    """forward has kept its ctx, though setup_context has come.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def forward(ctx, x, y):
        return x * y


class CtxForgotten(Function):
    """The combined form, and forward takes no ctx.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class SetupWithoutOutput(_Product):
    """setup_context takes the inputs alone.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def setup_context(ctx, inputs):
        ctx.save_for_backward(*inputs)


class ForwardCannotRun(_Product):
    """forward adds a string to its result.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def forward(x, y):
        return x * y + "1"


class BackwardWithoutCtx(_Product):
    """backward takes the gradient alone.

    Breaks: Function.backward.accepts
    """

    @staticmethod
    def backward(grad):
        return grad, grad


class BackwardTakesNothing(_Product):
    """backward has no parameter at all.

    Breaks: Function.backward.accepts
    """

    @staticmethod
    def backward():
        return None


class OneTangentForTwoInputs(_Product):
    """jvp takes the tangent of the first input alone: the second one was added later.

    Breaks: Function.jvp.accepts
    """

    @staticmethod
    def jvp(ctx, x_t):
        _, y = ctx.saved_tensors
        return x_t * y


class TangentsOfOutputsToo(_Product):
    """jvp takes a tangent for the output as well.

    Breaks: Function.jvp.accepts
    """

    @staticmethod
    def jvp(ctx, x_t, y_t, output_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t


class VmapWithoutInfo(_Product):
    """vmap takes in_dims and the arguments, and no info.

    Breaks: Function.vmap.accepts
    """

    @staticmethod
    def vmap(in_dims, x, y):
        return x * y, in_dims[0]


class VmapOfOneArgument(_Product):
    """vmap takes the first argument alone.

    Breaks: Function.vmap.accepts
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return x, in_dims[0]
