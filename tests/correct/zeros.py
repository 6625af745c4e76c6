"""Correct Functions around zero: kinks, branches, jumps and infinite slopes, where the gradient is a convention."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class _OfItsInput(Function):
    """Saves its input, and multiplies the gradient by ``slope``."""

    @staticmethod
    def value(x):
        raise NotImplementedError

    @classmethod
    def forward(cls, ctx, x):
        ctx.save_for_backward(x)
        return cls.value(x)

    @classmethod
    @once_differentiable
    def backward(cls, ctx, grad):
        return grad * cls.slope(ctx.saved_tensors[0])


class Rectified(_OfItsInput):
    """Has a kink at zero, where it takes the slope from above."""

    value = torch.relu

    @staticmethod
    def slope(x):
        return (x >= 0).to(x)


class Magnitude(_OfItsInput):
    """Has a kink at zero, where it takes the slope of one side; the central difference there is zero."""

    value = torch.abs

    @staticmethod
    def slope(x):
        return torch.where(x >= 0, 1.0, -1.0).to(x)


class SoftMagnitude(_OfItsInput):
    """Bends within a millionth of zero."""

    @staticmethod
    def value(x):
        return (x.square() + 1e-12).sqrt()

    @staticmethod
    def slope(x):
        return x / (x.square() + 1e-12).sqrt()


class SignedSquare(_OfItsInput):
    """Has a second derivative that jumps at zero."""

    @staticmethod
    def value(x):
        return x * x.abs()

    @staticmethod
    def slope(x):
        return 2 * x.abs()


class OneAndAHalf(_OfItsInput):
    """Has an unbounded second derivative at zero."""

    @staticmethod
    def value(x):
        return x.sign() * x.abs() ** 1.5

    @staticmethod
    def slope(x):
        return 1.5 * x.abs().sqrt()


class Root(_OfItsInput):
    """Has an infinite slope at zero, and returns a large number instead."""

    @staticmethod
    def value(x):
        return x.sign() * x.abs().sqrt()

    @staticmethod
    def slope(x):
        return 0.5 / x.abs().sqrt().clamp_min(1e-3)


class CubeRoot(_OfItsInput):
    """Has an infinite slope at zero, on both sides."""

    @staticmethod
    def value(x):
        return x.sign() * x.abs() ** (1 / 3)

    @staticmethod
    def slope(x):
        return x.abs() ** (-2 / 3) / 3


class CardinalSine(_OfItsInput):
    """Defines its own value and slope at zero."""

    @staticmethod
    def value(x):
        return torch.where(x == 0, torch.ones_like(x), x.sin() / x)

    @staticmethod
    def slope(x):
        return torch.where(x == 0, torch.zeros_like(x), (x * x.cos() - x.sin()) / x.square())


class Flickering(_OfItsInput):
    """Oscillates ever faster towards zero, where its slope is a convention."""

    @staticmethod
    def value(x):
        return torch.where(x == 0, torch.zeros_like(x), x * (1 / x).sin())

    @staticmethod
    def slope(x):
        return torch.where(x == 0, torch.ones_like(x), (1 / x).sin() - (1 / x).cos() / x)


class JumpsAtZero(_OfItsInput):
    """Jumps at zero, on both sides of it."""

    @staticmethod
    def value(x):
        return x.sign() + 2 * x

    @staticmethod
    def slope(x):
        return torch.full_like(x, 2.0)


class HardlyShrunk(_OfItsInput):
    """Sets numbers within a thousandth of zero to zero."""

    @staticmethod
    def value(x):
        return torch.where(x.abs() < 1e-3, torch.zeros_like(x), x)

    @staticmethod
    def slope(x):
        return (x.abs() >= 1e-3).to(x)


class TinyNumbersFlushed(_OfItsInput):
    """Sets numbers below rounding error to zero."""

    @staticmethod
    def value(x):
        return torch.where(x.abs() < 1e-13, torch.zeros_like(x), x)

    @staticmethod
    def slope(x):
        return (x.abs() >= 1e-13).to(x)


class GuardedInForwardToo(_OfItsInput):
    """Keeps a ratio finite by a small constant in forward too, so the slope at zero is really another one."""

    @staticmethod
    def value(x):
        return x**3 / (x.square() + 1e-24)

    @staticmethod
    def slope(x):
        return (x**4 + 3e-24 * x.square()) / (x.square() + 1e-24).square()


class PrunedWeights(Function):
    """Passes no gradient to weights that are zero, on purpose."""

    @staticmethod
    def inputs():
        yield tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (4, 2), (2,)))

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), (x.t() @ grad) * (weight != 0), grad.sum(0)


class HalfOfASymmetricMatrix(Function):
    """Reads the lower triangle of a symmetric matrix; its gradient is symmetric, like PyTorch's own."""

    @staticmethod
    def inputs():
        half = torch.randn(3, 3, dtype=torch.float64)
        yield ((half + half.mT).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.exp(x.tril(-1) + x.tril(-1).mT) + x.diagonal().diag_embed() / 10

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        beside = (grad + grad.mT) / 2 * x.exp()
        return beside.triu(1) + beside.tril(-1) + grad.diagonal().diag_embed() / 10


class LargestOfRows(Function):
    """Takes the largest of each row, all of them negative: a zero among them becomes the largest."""

    @staticmethod
    def inputs():
        yield (-torch.rand(3, 4, dtype=torch.float64).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        largest, place = x.max(-1)
        ctx.save_for_backward(place)
        ctx.shape = x.shape
        return largest

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(-1, place.unsqueeze(-1), grad.unsqueeze(-1))


class SingleInside(_OfItsInput):
    """Computes in single precision, which hides small differences."""

    @staticmethod
    def value(x):
        return x.float().expm1().to(x)

    @staticmethod
    def slope(x):
        return x.float().exp().to(x)


class _SurrogateAtZero(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.where(x == 0, torch.ones_like(x), 2 * x)


#: A square that pushes away from zero, on purpose, as its formula says.
PushedFromZero = Subject(
    _SurrogateAtZero,
    inputs=lambda: [(torch.randn(3, 4, dtype=torch.float64, requires_grad=True),)],
    formula=lambda args, grads: (grads[0] * torch.where(args[0] == 0, 1.0, 2 * args[0]),),
)


class RootByNewton(Function):
    """Cube root by Newton's method; at zero its slope is infinite, and the gradient only huge."""

    @staticmethod
    def inputs():
        yield (torch.rand(4, dtype=torch.float64).add(0.5).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        root = torch.ones_like(x)
        for _ in range(60):
            root = root - (root**3 - x) / (3 * root**2)
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx, grad):
        (root,) = ctx.saved_tensors
        return grad / (3 * root**2)
