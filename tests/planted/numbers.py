"""Bugs that show for other numbers than those of the sample: zeros, or large ones."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.correct import numbers as right
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class ProductDividedByItsFactors(Function):
    """Divides a product by one factor to get the product of the others, which fails if the factor is zero.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        product = x.prod(-1)
        ctx.save_for_backward(x, product)
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, product = ctx.saved_tensors
        return (grad * product).unsqueeze(-1) / x


class GuardedInForwardAlone(Function):
    """Handles zero in forward but divides by it in backward, in a cardinal sine.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x == 0, torch.ones_like(x), x.sin() / x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x * x.cos() - x.sin()) / x.square()


class LogarithmOfZero(right.Power):
    """Multiplies by the logarithm of the base in the gradient of the exponent: NaN if the base is zero.

    Breaks: Function.backward.gradient
    """

    inputs = right.Power.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        base, exponent, power = ctx.saved_tensors
        return grad * exponent * base ** (exponent - 1), grad * power * base.log()


class SigmoidFromAnExponential(Function):
    """Divides infinity by infinity in backward if the argument is large.

    Breaks: Function.backward.large-numbers
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sigmoid()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        power = x.exp()
        return grad * power / (1 + power).square()


class WeightsWithoutTheMaximum(Function):
    """Does not subtract the maximum in backward of a log-sum-exp, so it overflows.

    Breaks: Function.backward.large-numbers
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.logsumexp(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        powers = x.exp()
        return grad.unsqueeze(-1) * powers / powers.sum(-1, keepdim=True)


class RootKeptFinite(Function):
    """Adds a small number in backward, which keeps the gradient finite at zero and makes it too small elsewhere.

    Breaks: Function.backward.exact
    """

    @staticmethod
    def forward(ctx, x):
        root = x.abs().sqrt()
        ctx.save_for_backward(x, root)
        return root

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, root = ctx.saved_tensors
        return grad * x.sign() / (2 * root + 1e-7)


class UnitRowsKeptFinite(Function):
    """Adds a small number to the lengths of rows in backward alone: the error is not the same for all of them.

    Breaks: Function.backward.exact
    """

    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, length)
        return x / length

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, length = ctx.saved_tensors
        unit = x / length
        return (grad - unit * (grad * unit).sum(-1, keepdim=True)) / (length + 1e-6)


class TopWithoutItsGate(Function):
    """Passes the gradient of a ReLU through below zero too.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield (
            torch.tensor([-4.0, -3.0], dtype=torch.float64, requires_grad=True),
            torch.tensor([3.9, 3.5], dtype=torch.float64, requires_grad=True),
        )

    @staticmethod
    def forward(ctx, x, bias):
        if x.shape != (2,):
            raise ValueError("two numbers are compared")
        top = (x + bias).argmax()
        ctx.save_for_backward(top)
        return (x + bias)[top].relu()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (top,) = ctx.saved_tensors
        passed = grad.new_zeros(2).index_fill(0, top, 1.0) * grad
        return passed, passed.clone()


class DistancesToThemselves(Function):
    """Divides by the distance of a point to itself, which is zero, in backward.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(8)
        yield (torch.randn(4, 3, dtype=torch.float64, generator=generator).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        apart = x[:, None] - x
        distances = apart.square().sum(-1).sqrt()
        ctx.save_for_backward(apart, distances)
        return distances

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        apart, distances = ctx.saved_tensors
        pulls = grad[..., None] * apart / distances[..., None]
        return pulls.sum(1) - pulls.sum(0)
