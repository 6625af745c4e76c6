"""Bugs of Functions that take a module, and parameters of that module as further arguments."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import modules as right

SPEC = "Function"


class GradientsOfTwoModulesExchanged(Function):
    """Returns the gradients of two modules in the wrong order.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        first, second = (torch.nn.Linear(3, 3, bias=False, dtype=torch.float64) for _ in range(2))
        yield [first, second], torch.randn(2, 3, dtype=torch.float64, requires_grad=True), first.weight, second.weight

    @staticmethod
    def forward(ctx, layers, x, first, second):
        ctx.layers = layers
        ctx.save_for_backward(x)
        return layers[1](layers[0](x).tanh())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        first, second = ctx.layers
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            middle = first(again).tanh()
            y = second(middle)
        own = torch.autograd.grad(y, [second.weight, first.weight], grad, retain_graph=True)
        return None, *torch.autograd.grad(y, [again], grad), *own


class WeightReadInBackward(right.WeightSaved):
    """Reads the weight of its module in backward, when an optimizer may have changed it.

    Breaks: Function.save_for_backward.protects
    """

    inputs = right.WeightSaved.inputs

    @staticmethod
    def forward(ctx, x, layer, weight):
        ctx.layer = layer
        ctx.save_for_backward(x)
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ ctx.layer.weight, None, grad.mT @ x
