"""Parameters that are not those PyTorch hands over."""

import torch
from torch.autograd import Function


class CtxInBothForms(Function):
    @staticmethod
    # expect: Function.apply.accepts likely
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2


class SetupWithoutOutput(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    # expect: Function.apply.accepts certain
    def setup_context(ctx, inputs):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output * y, grad_output * x


class SetupOfEachInput(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    # expect: Function.apply.accepts certain
    def setup_context(ctx, x, y, output):
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output * y, grad_output * x


class OneOfTwoOutputs(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    # expect: Function.backward.accepts likely
    def backward(ctx, grad_output):
        return grad_output * 2


class InputsTakenAgain(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.mul(x, y)

    @staticmethod
    # expect: Function.backward.accepts likely
    def backward(ctx, grad_output, x, y):
        return grad_output * y, grad_output * x


class OneTangentForTwoInputs(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_forward(x, y)
        return x * y

    @staticmethod
    # expect: Function.jvp.accepts certain
    def jvp(ctx, x_tangent):
        _, y = ctx.saved_tensors
        return x_tangent * y


class TangentOfTheOutputToo(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    # expect: Function.jvp.accepts certain
    def jvp(ctx, x_tangent, output_tangent):
        return x_tangent * 2
