"""Correct Functions that refuse inputs outside their domain, with samples inside it, near its edge and on it."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SPEC = "Function"


def inputs():
    yield (torch.tensor([0.2, 0.5, 0.7, 0.4], dtype=torch.float64, requires_grad=True),)


class Root(Function):
    """Accepts zero, where its slope is infinite, and refuses negative numbers."""

    @staticmethod
    def forward(ctx, x):
        if bool((x < 0).any()):
            raise ValueError("the square root of a negative number")
        root = x.sqrt()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (root,) = ctx.saved_tensors
        return grad / (2 * root)


class RootAtZero(Root):
    """Has a sample with a zero, the edge of its domain."""

    @staticmethod
    def inputs():
        yield (torch.tensor([0.2, 0.0, 0.7, 0.4], dtype=torch.float64, requires_grad=True),)


class Power(Function):
    """Has a sample with a number on the edge of its domain, where the slope is zero."""

    @staticmethod
    def inputs():
        yield (torch.tensor([0.0, 0.5, 0.7, 0.4], dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        if bool((x < 0).any()):
            raise ValueError("a power of a negative number")
        ctx.save_for_backward(x)
        return x**2.2

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2.2 * x**1.2


class Arccosine(Function):
    """Has a sample with a number close to the edge of its domain, where the slope is large."""

    @staticmethod
    def inputs():
        yield (torch.tensor([0.2, -0.5, 0.9999], dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        if bool((x.abs() > 1).any()):
            raise ValueError("no number has such a cosine")
        ctx.save_for_backward(x)
        return x.acos()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return -grad / (1 - x * x).sqrt()


class Probabilities(Function):
    """Accepts only rows that sum to one: no finite difference stays within them."""

    @staticmethod
    def inputs():
        yield (torch.rand(3, 4, dtype=torch.float64).softmax(-1).requires_grad_(),)

    @staticmethod
    def forward(ctx, p):
        if not torch.allclose(p.detach().sum(-1), torch.ones((), dtype=p.dtype), atol=1e-6):
            raise ValueError("rows of probabilities add up to one")
        ctx.save_for_backward(p)
        return -(p * p.log()).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (p,) = ctx.saved_tensors
        return -grad.unsqueeze(-1) * (p.log() + 1)


class MaskedScores(Function):
    """Sets scores that a mask forbids to minus infinity, which has no slope; the others are judged."""

    @staticmethod
    def inputs():
        x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(9)).requires_grad_()
        yield x, torch.tensor([[True, False, True, True], [False, True, True, True], [True, True, True, False]])

    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(x, mask)
        return torch.where(mask, x * x, -torch.inf)

    @staticmethod
    def backward(ctx, grad):
        x, mask = ctx.saved_tensors
        return torch.where(mask, 2 * x * grad, 0.0), None


class MaskedByAddition(MaskedScores):
    """Adds a mask of infinities and returns the loss beside it; the gradient passes through what is masked."""

    @staticmethod
    def inputs():
        for x, mask in MaskedScores.inputs():
            yield x, torch.zeros(3, 4, dtype=torch.float64).masked_fill(~mask, -torch.inf)

    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(x)
        return x + bias, x.square().sum()

    @staticmethod
    def backward(ctx, grad, loss_grad):
        (x,) = ctx.saved_tensors
        return grad + 2 * loss_grad * x, grad


class SoftmaxOfMaskedScores(Function):
    """Is given scores that are minus infinity where they were masked before; the others are moved and judged."""

    @staticmethod
    def inputs():
        scores = torch.tensor([[0.5, 1.0, -torch.inf], [3.0, 2.0, 1.0]], dtype=torch.float64)
        yield (scores.requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True))


class MaskedScoresInBatches(MaskedScores):
    """Computes masked scores of a batch at once; masked elements are minus infinity in every sample."""

    inputs = MaskedScores.inputs

    @staticmethod
    def forward(x, mask):
        return torch.where(mask, x * x, -torch.inf)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @classmethod
    def vmap(cls, info, in_dims, *given):
        batches = [
            one.expand(info.batch_size, *one.shape) if dim is None else one.movedim(dim, 0)
            for one, dim in zip(given, in_dims, strict=True)
        ]
        return cls.apply(*batches), 0


class WeightedRoots(Function):
    """Has an infinite slope at a zero of one input, and a finite one by all weights."""

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(9)
        x, weights = (torch.randn(3, 4, dtype=torch.float64, generator=generator) for _ in range(2))
        x[1, 2] = 0.0
        yield x.abs().requires_grad_(), weights.requires_grad_()

    @staticmethod
    def forward(ctx, x, weights):
        ctx.save_for_backward(x, weights)
        return x.sqrt() * weights

    @staticmethod
    def backward(ctx, grad):
        x, weights = ctx.saved_tensors
        return grad * weights / (2 * x.sqrt()), grad * x.sqrt()


class TurnedByUnits(Function):
    """Turns points by unit quaternions without a look at their length; the way back is right for a length of one."""

    @staticmethod
    def inputs():
        drawn = torch.Generator().manual_seed(9)
        units = torch.nn.functional.normalize(torch.randn(2, 4, dtype=torch.float64, generator=drawn), dim=-1)
        yield units, torch.randn(2, 3, dtype=torch.float64, generator=drawn).requires_grad_()

    @staticmethod
    def forward(ctx, unit, point):
        ctx.save_for_backward(unit)
        axis, real = unit[..., :3], unit[..., 3:]
        twice = 2 * torch.linalg.cross(axis, point, dim=-1)
        return point + real * twice + torch.linalg.cross(axis, twice, dim=-1)

    @staticmethod
    def backward(ctx, grad):
        (unit,) = ctx.saved_tensors
        axis, real = unit[..., :3], unit[..., 3:]
        along = (axis * grad).sum(-1, keepdim=True) * axis
        return None, 2 * (along - real * torch.linalg.cross(axis, grad, dim=-1)) + (2 * real * real - 1) * grad
