"""Functions that are given a module, and parameters of that very module beside it."""

from __future__ import annotations

import inspect

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


class LinearOfAModule(Function):
    """Calls the module in forward; its weight is an argument so that it gets a gradient."""

    @staticmethod
    def inputs():
        layer = torch.nn.Linear(3, 2, bias=False, dtype=torch.float64)
        yield layer, torch.randn(4, 3, dtype=torch.float64, requires_grad=True), layer.weight

    @staticmethod
    def forward(ctx, layer, x, weight):
        ctx.save_for_backward(x, weight)
        return layer(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return None, grad @ weight, grad.mT @ x


_WEIGHT = torch.nn.Parameter(torch.rand(3, 3, dtype=torch.float64))


class MaskedByAParameter(Function):
    """Takes no more of a parameter than a mask, which has no gradient to lose."""

    inputs = of_shapes((4, 3))

    @staticmethod
    def forward(ctx, x):
        mask = (_WEIGHT > 0.5).to(x.dtype)
        ctx.save_for_backward(mask)
        return x @ mask

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad @ ctx.saved_tensors[0].mT


class AddsUpTheGradItself(Function):
    """Gives a parameter that is not an argument its gradient by hand, as kernels do that add up in place."""

    inputs = of_shapes((4, 3))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ _WEIGHT

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        own = x.mT @ grad
        _WEIGHT.grad = own if _WEIGHT.grad is None else _WEIGHT.grad.add_(own)
        return grad @ _WEIGHT.detach().mT


class RunsItsModulesAgain(Function):
    """Finds the gradients of all parameters by running a list of modules again, and not those that it was given."""

    @staticmethod
    def inputs():
        layers = [torch.nn.Linear(3, 3, dtype=torch.float64), torch.nn.Tanh()]
        yield layers, torch.randn(4, 3, dtype=torch.float64, requires_grad=True), *layers[0].parameters()

    @staticmethod
    def forward(ctx, layers, x, *parameters):
        ctx.layers = layers
        ctx.save_for_backward(x)
        for layer in layers:
            x = layer(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        result = x = x.detach().requires_grad_()
        with torch.enable_grad():
            for layer in ctx.layers:
                result = layer(result)
        return None, *torch.autograd.grad(result, [x, *ctx.layers[0].parameters()], grad)


class AsksForWhatItSaved(Function):
    """Runs a module again, and asks for the gradients of the parameters that it was given and saved, as adjoints do."""

    @staticmethod
    def inputs():
        layer = torch.nn.Linear(3, 3, dtype=torch.float64)
        yield layer, torch.randn(4, 3, dtype=torch.float64, requires_grad=True), *layer.parameters()

    @staticmethod
    def forward(ctx, layer, x, *parameters):
        ctx.layer = layer
        ctx.save_for_backward(x, *parameters)
        return layer(x).tanh()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, *parameters = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            result = ctx.layer(x).tanh()
        return None, *torch.autograd.grad(result, [x, *parameters], grad)


class LeavesGradientsOnTheModule(AsksForWhatItSaved):
    """Runs a module again by a whole backward pass, which leaves gradients on parameters that are arguments too."""

    inputs = AsksForWhatItSaved.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            result = ctx.layer(x).tanh()
        result.backward(grad)
        return None, x.grad, None, None


class RunsWhatItIsGiven(Function):
    """Runs a callable again, which has its module from a closure; its parameters are arguments for their gradients."""

    @staticmethod
    def inputs():
        layer = torch.nn.Linear(3, 2, dtype=torch.float64)

        def run(x):
            return layer(x).tanh()

        yield run, torch.randn(4, 3, dtype=torch.float64, requires_grad=True), layer.weight, layer.bias
        yield layer.forward, torch.randn(4, 3, dtype=torch.float64, requires_grad=True), layer.weight, layer.bias

    @staticmethod
    def forward(ctx, run, x, weight, bias):
        ctx.run = run
        ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        layer = inspect.getclosurevars(ctx.run).nonlocals["layer"] if inspect.isfunction(ctx.run) else ctx.run.__self__
        with torch.enable_grad():
            result = ctx.run(x)
        return None, *torch.autograd.grad(result, [x, layer.weight, layer.bias], grad)


class TimesAMatrixOfAModule(Function):
    """Multiplies with a matrix that stays on the CPU, which PyTorch lets it do with arguments on the meta device."""

    @staticmethod
    def inputs():
        layer = torch.nn.Linear(3, 3, dtype=torch.float64).requires_grad_(False)
        yield layer, torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer = layer
        return layer.weight.to(x.dtype) @ x

    @staticmethod
    def backward(ctx, grad):
        return None, ctx.layer.weight.to(grad.dtype).mT @ grad
