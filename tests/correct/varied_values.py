"""Correct Functions in which some values have a meaning, or need care to keep gradients finite."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.samples import of_shapes

SPEC = "Function"

_DOUBLE = torch.float64


class FilledFromItsNeighbour(Function):
    """Replaces zeros by their neighbour, which then gets two gradients."""

    @staticmethod
    def inputs():
        yield (torch.tensor([1.5, 0.0, 3.0], dtype=_DOUBLE, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        empty = x == 0
        ctx.save_for_backward(empty)
        return torch.where(empty, x.roll(1), x)

    @staticmethod
    def backward(ctx, grad):
        (empty,) = ctx.saved_tensors
        return torch.where(empty, 0, grad) + torch.where(empty, grad, 0).roll(-1)


class SignedSquareRoot(Function):
    """Takes the square root of the magnitude, and keeps the sign."""

    @staticmethod
    def inputs():
        yield ((torch.rand(3, 4, dtype=_DOUBLE) + 0.5).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign() * x.abs().sqrt()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (2 * x.abs().sqrt())


class Magnitudes(Function):
    """Takes the cube of the magnitude; the sample is positive."""

    inputs = SignedSquareRoot.inputs

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() ** 3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * grad * x * x.abs()


class MadeForPositive(Function):
    """Takes a power of numbers that its samples show to be positive; of others the gradient would lack its sign."""

    @staticmethod
    def inputs():
        yield ((torch.rand(3, 4, dtype=_DOUBLE) + 0.5).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        squares = x * x
        ctx.save_for_backward(squares)
        return squares**0.75

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (squares,) = ctx.saved_tensors
        return 1.5 * grad * squares**0.25


class PositiveAlone(Function):
    """Takes a logarithm, and refuses numbers that are not positive."""

    inputs = SignedSquareRoot.inputs

    @staticmethod
    def forward(ctx, x):
        if bool((x <= 0).any()):
            raise ValueError("x has to be positive")
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x


class LogSumWithBias(Function):
    """Computes a log-sum-exp with a bias that may be minus infinity, and a scale with a gradient."""

    @staticmethod
    def inputs():
        x, bias = (torch.randn(3, 4, dtype=_DOUBLE) for _ in range(2))
        yield x.requires_grad_(), bias, torch.tensor(0.7, dtype=_DOUBLE, requires_grad=True)

    @staticmethod
    def forward(ctx, x, bias, scale):
        inner = x + bias
        result = (scale * inner).logsumexp(-1)
        ctx.save_for_backward(inner, scale, (scale * inner - result[..., None]).exp())
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        inner, scale, share = ctx.saved_tensors
        of_inner = grad[..., None] * share
        of_scale = torch.where(share == 0, 0, of_inner * inner).sum()
        return scale * of_inner, None, of_scale


class LossOfWhatIsKnown(Function):
    """Computes a squared error; targets that are NaN do not count."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=_DOUBLE, requires_grad=True), torch.randn(3, 4, dtype=_DOUBLE)

    @staticmethod
    def forward(ctx, x, target):
        error = torch.where(target.isnan(), 0, x - target)
        ctx.save_for_backward(error)
        return error.square().sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (error,) = ctx.saved_tensors
        return 2 * grad[..., None] * error, None


class RefusesWhatIsUnknown(LossOfWhatIsKnown):
    """Refuses targets that are not finite."""

    inputs = LossOfWhatIsKnown.inputs

    @staticmethod
    def forward(ctx, x, target):
        if not bool(target.isfinite().all()):
            raise ValueError("the target has to be finite")
        return LossOfWhatIsKnown.forward(ctx, x, target)


class Sine(Function):
    """Computes a sine; backward is linear in the incoming gradient."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class _ClipsFarOut(Sine):
    @staticmethod
    def backward(ctx, grad):
        return Sine.backward(ctx, grad).clamp(-1e7, 1e7)


#: Clips its gradient at ten million on purpose, as its formula says.
ClipsFarOut = Subject(
    _ClipsFarOut,
    inputs=Sine.inputs,
    formula=lambda args, grads: ((grads[0] * args[0].cos()).clamp(-1e7, 1e7),),
)


class EmptyIsZero(Function):
    """Averages the entries of each row that are not zero: a zero means missing, and gets no gradient."""

    @staticmethod
    def inputs():
        yield (torch.tensor([[1.5, 0.0, 3.0], [0.5, -2.0, 0.7]], dtype=_DOUBLE, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        kept = x != 0
        ctx.save_for_backward(kept)
        return x.sum(-1) / kept.sum(-1).clamp(min=1)

    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return (grad / kept.sum(-1).clamp(min=1))[:, None] * kept


class SoftmaxByShares(Function):
    """Normalizes the gradient of a softmax once more; for incoming ones all terms cancel, and only rounding remains."""

    inputs = of_shapes((4, 5))

    @staticmethod
    def forward(ctx, x):
        share = x.softmax(-1)
        ctx.save_for_backward(share)
        return share

    @staticmethod
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        of_share = grad * share
        return of_share - share * (of_share.sum(-1, keepdim=True) / share.sum(-1, keepdim=True))


class KernelOfDistances(Function):
    """Computes a Gaussian kernel of distances; points at infinity, which make its gradient NaN, are not meant."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 2, dtype=_DOUBLE), torch.tensor(0.7, dtype=_DOUBLE, requires_grad=True)

    @staticmethod
    def forward(ctx, points, length):
        if length <= 0:
            raise ValueError("the length has to be positive")
        squared = (points[:, None] - points).div(length).square().sum(-1)
        squared = torch.where(torch.eye(len(points), dtype=torch.bool), 0, squared)
        kernel = (-squared / 2).exp()
        ctx.save_for_backward(squared * kernel / length)
        return kernel

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors
        return None, (grad * slope).sum()


class OneFilter(Function):
    """Multiplies by a weight with a single row; backward relies on there being only one."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 3, dtype=_DOUBLE, requires_grad=True), torch.randn(1, 3, dtype=_DOUBLE), 0

    @staticmethod
    def forward(ctx, x, weight, mode):
        ctx.save_for_backward(weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return grad[:, :1] * weight[:1], None, None


class CoordinatesOfACell(Function):
    """Averages the coordinates of points, and divides by the number of sides of a cell, which is equal."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 2, dtype=_DOUBLE, requires_grad=True), [5, 7]

    @staticmethod
    def forward(ctx, points, sides):
        ctx.count, ctx.columns = len(sides), points.shape[1]
        return points.mean(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad[:, None].expand(-1, ctx.columns) / ctx.count, None
