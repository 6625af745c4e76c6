"""Correct Functions that take a module, and often parameters of that module as further arguments."""

from __future__ import annotations

import inspect

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


class LinearOfAModule(Function):
    """Calls a module in forward; the weight is an argument too, so it gets a gradient."""

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
    """Derives a mask from a parameter: there is no gradient to lose."""

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
    """Accumulates by hand the gradient of a parameter that is not an argument, as fused kernels do."""

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
    """Runs a list of modules again, and returns the gradients of their parameters, which are also its arguments."""

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
    """Runs a module again, and differentiates by the saved parameters, as adjoint methods do."""

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
    """Runs a module again by a full backward pass, which accumulates gradients on parameters that are arguments too."""

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
    """Runs a callable again that finds its module in a closure; the parameters are arguments too."""

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
    """Multiplies by a matrix that stays on the CPU, which PyTorch allows for arguments on the meta device."""

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


class WeightSaved(Function):
    """Saves the weight of a module that is an argument too."""

    @staticmethod
    def inputs():
        layer = torch.nn.Linear(3, 4, bias=False, dtype=torch.float64)
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), layer, layer.weight

    @staticmethod
    def forward(ctx, x, layer, weight):
        ctx.save_for_backward(x, weight)
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, None, grad.mT @ x
