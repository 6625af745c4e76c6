"""Bugs in the parameters of methods: PyTorch passes more or fewer values than they take."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


def inputs():
    generator = torch.Generator().manual_seed(17)
    yield tuple(torch.randn(3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))


class _Product(Function):
    """Multiplies in the separate form; correct. The bugs below each change one member."""

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
    """Takes ctx in forward although setup_context is defined.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def forward(ctx, x, y):
        return x * y


class CtxForgotten(Function):
    """Takes no ctx in forward, although setup_context is not defined.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class SetupWithoutOutput(_Product):
    """Takes no output in setup_context.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def setup_context(ctx, inputs):
        ctx.save_for_backward(*inputs)


class ForwardCannotRun(_Product):
    """Adds a string to a tensor in forward.

    Breaks: Function.apply.accepts
    """

    @staticmethod
    def forward(x, y):
        return x * y + "1"


class BackwardWithoutCtx(_Product):
    """Takes no ctx in backward.

    Breaks: Function.backward.accepts
    """

    @staticmethod
    def backward(grad):
        return grad, grad


class BackwardTakesNothing(_Product):
    """Takes no arguments in backward.

    Breaks: Function.backward.accepts
    """

    @staticmethod
    def backward():
        return None


class OneTangentForTwoInputs(_Product):
    """Takes the tangent of the first input only: the second input was added later.

    Breaks: Function.jvp.accepts
    """

    @staticmethod
    def jvp(ctx, x_t):
        _, y = ctx.saved_tensors
        return x_t * y


class TangentsOfOutputsToo(_Product):
    """Takes a tangent for the output as well in jvp.

    Breaks: Function.jvp.accepts
    """

    @staticmethod
    def jvp(ctx, x_t, y_t, output_t):
        x, y = ctx.saved_tensors
        return x_t * y + x * y_t


class VmapWithoutInfo(_Product):
    """Takes no info in vmap.

    Breaks: Function.vmap.accepts
    """

    @staticmethod
    def vmap(in_dims, x, y):
        return x * y, in_dims[0]


class VmapOfOneArgument(_Product):
    """Takes only the first argument in vmap.

    Breaks: Function.vmap.accepts
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return x, in_dims[0]
