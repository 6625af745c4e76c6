"""Counts that match, or of which nothing can be said."""

import torch
from torch.autograd import Function


class ExtraNones(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None, None


class AnyNumber(Function):
    @staticmethod
    def forward(ctx, run, *xs):
        return run(*xs)

    @staticmethod
    def backward(ctx, *gradients):
        return (None, *gradients)


class DefaultOfTheCombinedForm(Function):
    @staticmethod
    def forward(ctx, x, scale=2.0):
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.scale


class FromACall(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    def backward(ctx, grad_output):
        return torch.ops.aten.somewhere(grad_output, *ctx.saved_tensors)


class SavedTuple(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad_output):
        gradients = torch.autograd.grad(grad_output, ctx.saved_tensors, create_graph=True)
        return gradients


class Placeholder(Function):
    @staticmethod
    def forward(ctx, x, y):
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output):
        raise NotImplementedError


class GrownList(Function):
    @staticmethod
    def forward(ctx, x, y, z):
        return x + y + z

    @staticmethod
    def backward(ctx, grad_output):
        gradients = []
        for needed in ctx.needs_input_grad:
            gradients.append(grad_output if needed else None)
        return tuple(gradients)


class NestedFunction(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad_output):
        def half(gradient):
            return gradient / 2

        return half(grad_output), half(grad_output)


class ClassMethod(Function):
    @classmethod
    def forward(cls, ctx, x, y):
        return x + y

    @classmethod
    def backward(cls, ctx, grad_output):
        return grad_output, grad_output
