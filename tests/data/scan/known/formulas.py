"""Derivatives that were wrong in published code."""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from .comm import as_numbers


# known: Function.backward.double https://github.com/pytorch/pytorch/issues/58509
# also: Function.forward.no-tensor-on-ctx
class IntermediateOnCtx(Function):
    @staticmethod
    def forward(ctx, values):
        inner = values * 2
        ctx.inner = inner
        return inner.square()

    @staticmethod
    def backward(ctx, handed):
        return 4 * ctx.inner * handed


# known: Function.backward.double https://github.com/pytorch/pytorch/issues/104040
class IntermediateSaved(Function):
    @staticmethod
    def forward(ctx, values):
        inner = values.exp()
        ctx.save_for_backward(inner)
        return inner + 1

    @staticmethod
    def backward(ctx, handed):
        (inner,) = ctx.saved_tensors
        return handed * inner


# known: Function.backward.double docs/failures/memcnn_additive.py
class Recomputes(Function):
    @staticmethod
    def forward(ctx, values, run, *weights):
        ctx.run, ctx.weights = run, None
        ctx.save_for_backward(values, *weights)
        with torch.no_grad():
            return run(values)

    @staticmethod
    def backward(ctx, handed):
        values, *weights = ctx.saved_tensors
        with torch.enable_grad():
            again = values.detach().requires_grad_()
            result = ctx.run(again)
            found = torch.autograd.grad(result, (again, *weights), handed)
        return found[0], None, *found[1:]


# known: Function.backward.gradient docs/failures/memcnn_inverse.py
class SwapsTheHalves(Function):
    @staticmethod
    def forward(ctx, values):
        first, second = values.chunk(2, dim=1)
        return torch.cat([first, second - first], dim=1)

    @staticmethod
    def backward(ctx, handed):
        first, second = handed.chunk(2, dim=1)
        return torch.cat([second, first - second], dim=1)


# known: Function.backward.double docs/failures/entmax_double.py
class RootOfZero(Function):
    @staticmethod
    def forward(ctx, values):
        result = values.clamp(min=0) ** 2
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, handed):
        (result,) = ctx.saved_tensors
        return handed * 2 * result.sqrt()


# known: Function.backward.gradient docs/failures/torch_function_db.py: CubeGenVmap
class AddsTheSecondDerivative(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values):
        return values**3, 3 * values**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx, handed, handed_slope):
        values, slope = ctx.saved_tensors
        return handed * slope + 6 * slope


# known: Function.backward.gradient docs/failures/torch_function_db.py: NumpyCubeNotComposable
# also: Function.backward.double
class CubeByNumbers(Function):
    @staticmethod
    def forward(values):
        numbers = as_numbers(values)
        return torch.tensor(numbers**3), numbers

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, handed, unused):
        (values,) = ctx.saved_tensors
        return 3 * torch.square(values)


# known: Function.backward.gradient docs/failures/torch_function_db.py: NumpySort
class SortsNothing(Function):
    @staticmethod
    def forward(values: Tensor, dim: int):
        order = torch.argsort(values, dim=dim)
        return values.clone(), order

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dim = inputs[1]
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, handed, unused):
        (order,) = ctx.saved_tensors
        return torch.empty_like(handed).scatter(ctx.dim, order, handed), None


# known: Function.backward.any-input docs/data/published.json: torchlogix 0.1.1, LearnableConnectionFunction
class ReshapesTheEmpty(Function):
    @staticmethod
    def forward(ctx, values, weight):
        ctx.save_for_backward(values, weight)
        return F.linear(values.reshape(values.shape[0], -1), weight)

    @staticmethod
    def backward(ctx, handed):
        values, weight = ctx.saved_tensors
        flat = values.reshape(values.shape[0], -1)
        return (handed @ weight).view_as(values), handed.t() @ flat


class RecomputesForAnyOrder(Function):
    @staticmethod
    def forward(ctx, values, run):
        ctx.run = run
        ctx.save_for_backward(values)
        with torch.no_grad():
            return run(values)

    @staticmethod
    def backward(ctx, handed):
        (values,) = ctx.saved_tensors
        with torch.enable_grad():
            (found,) = torch.autograd.grad(ctx.run(values), values, handed, create_graph=True)
        return found, None


class NoGradientAtAll(Function):
    @staticmethod
    def forward(ctx, values):
        ctx.save_for_backward(values)
        return values.sign()

    @staticmethod
    def backward(ctx, handed):
        (values,) = ctx.saved_tensors
        return torch.zeros_like(values)
