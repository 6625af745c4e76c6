"""Numbers of values that cannot match."""

import torch
from torch.autograd import Function


class OneTensorForTwoInputs(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.scale  # expect: Function.backward.count certain


class OneTooFewInATuple(Function):
    @staticmethod
    def forward(ctx, x, y, z):
        ctx.save_for_backward(x, y)
        return x * y + z

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output * y, grad_output * x  # expect: Function.backward.count certain


class NamedTuple(Function):
    @staticmethod
    def forward(ctx, x, y, z):
        return x + y + z

    @staticmethod
    def backward(ctx, grad_output):
        gradients = (grad_output, grad_output)
        if ctx.needs_input_grad[2]:
            gradients = (None, grad_output)
        return gradients  # expect: Function.backward.count certain


class OneBranch(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad_output):
        if not any(ctx.needs_input_grad):
            return None  # expect: Function.backward.count likely
        return grad_output, grad_output


class AList(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad_output):
        return [grad_output, grad_output]  # expect: Function.backward.count certain


class GradientForNobody(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output.sum()  # expect: Function.backward.count certain


class SumOfTuples(Function):
    @staticmethod
    def forward(ctx, x, a, b, c):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return (grad_output,) + (None,) * 2  # expect: Function.backward.count certain


class DefaultOfTheSeparateForm(Function):
    @staticmethod
    def forward(x, scale=2.0):
        return x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.scale = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.scale  # expect: Function.backward.count certain


class TangentForOneOutput(Function):
    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, sine, cosine):
        (x,) = ctx.saved_tensors
        return sine * x.cos() - cosine * x.sin()

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * x.cos()  # expect: Function.jvp.count certain


class Base(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y


class Inherited(Base):
    @staticmethod
    def backward(ctx, grad_output):
        return torch.neg(grad_output)  # expect: Function.backward.count certain
