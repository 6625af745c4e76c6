"""Correct Functions whose numbers have a meaning: an index to leave out, a count that divides, bounds, bits."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"

_DOUBLE = torch.float64


class EmbeddingWithPadding(Function):
    """Picks rows of weights; the row for padding, which the sample does not pick, gets no gradient on purpose."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 2, 3, 2]), 1

    @staticmethod
    def forward(ctx, weight, index, padding):
        ctx.save_for_backward(index)
        ctx.rows, ctx.padding = len(weight), padding
        return weight[index]

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        kept = grad * (index != ctx.padding)[:, None]
        return grad.new_zeros(ctx.rows, grad.shape[1]).index_add(0, index, kept), None, None


class LossWithoutOneTarget(Function):
    """The negative logarithm of the share of each row's target; rows with the target to ignore count for nothing."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 2, 1, 2]), -1

    @staticmethod
    def forward(ctx, x, target, ignored):
        kept = target != ignored
        logs = x.log_softmax(-1)
        ctx.save_for_backward(logs, target, kept)
        picked = logs.gather(1, target.clamp(min=0)[:, None])[:, 0]
        return -(picked * kept).sum() / kept.sum().clamp(min=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        logs, target, kept = ctx.saved_tensors
        one = torch.zeros_like(logs).scatter(1, target.clamp(min=0)[:, None], 1.0)
        return grad * (logs.exp() - one) * kept[:, None] / kept.sum().clamp(min=1), None, None


class HeadsThatDivide(Function):
    """Normalizes each part of a row, of which there are as many as it is told; PyTorch refuses what does not divide."""

    inputs = of_shapes((3, 6), others=(2,))

    @staticmethod
    def forward(ctx, x, heads):
        parts = x.unflatten(-1, (heads, x.shape[-1] // heads))
        share = parts.softmax(-1)
        ctx.save_for_backward(share)
        return share.flatten(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        parts = grad.unflatten(-1, share.shape[-2:])
        return (share * (parts - (parts * share).sum(-1, keepdim=True))).flatten(-2), None


class BetweenBounds(Function):
    """Clamps between two bounds, of which the lower one has to be the lower one."""

    inputs = of_shapes((3, 4), others=(-1.0, 1.0))

    @staticmethod
    def forward(ctx, x, low, high):
        if low >= high:
            raise ValueError(f"{low} is not below {high}")
        ctx.save_for_backward((x > low) & (x < high))
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None


class HuberLoss(Function):
    """A square near zero, and a line beyond a number that has to be positive."""

    inputs = of_shapes((3, 4), others=(1.0,))

    @staticmethod
    def forward(ctx, x, delta):
        if delta <= 0:
            raise ValueError(f"delta has to be positive, not {delta}")
        ctx.save_for_backward(x)
        ctx.delta = delta
        return torch.where(x.abs() < delta, x * x / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.clamp(-ctx.delta, ctx.delta), None


class RoundedToBits(Function):
    """Rounds to as many bits as it is told, none meaning not at all, and lets the gradient straight through."""

    inputs = of_shapes((3, 4), others=(0,))

    @staticmethod
    def forward(ctx, x, bits):
        return (x * 2**bits).round() / 2**bits if bits else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class LargestFew(Function):
    """Keeps as many of each row as it is told, the largest ones."""

    inputs = of_shapes((3, 5), others=(2,))

    @staticmethod
    def forward(ctx, x, count):
        places = x.topk(count, -1).indices
        mask = torch.zeros_like(x).scatter(-1, places, 1.0)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


class RunningMeanByMomentum(Function):
    """Subtracts the mean, and mixes it into a buffer by a share, which is one in the sample."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 3, dtype=_DOUBLE, requires_grad=True), torch.zeros(3, dtype=_DOUBLE), 1.0

    @staticmethod
    def forward(ctx, x, running, momentum):
        mean = x.mean(0)
        running.mul_(1 - momentum).add_(momentum * mean)
        ctx.mark_dirty(running)
        ctx.mark_non_differentiable(running)
        return x - mean, running

    @staticmethod
    def backward(ctx, grad, _):
        return grad - grad.mean(0), None, None


class ClampedInPlaceAndMarked(Function):
    """Clamps its input in place, beyond all that the sample has, and marks it."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        x.clamp_(-100, 100)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class OneGradientForBoth(Function):
    """Adds two inputs, and hands both the incoming gradient itself."""

    inputs = of_shapes((3, 4), (3, 4))

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class HookTakenAway(Function):
    """Registers a hook on its input, and takes it away again before forward is over."""

    inputs = of_shapes((3, 4))

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        if x.requires_grad:
            x.register_hook(lambda gradient: None).remove()
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class LaidOutAsItsInput(Function):
    """Its result and its gradient lie in memory as its input does."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.empty_like(x).copy_(x.exp())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.empty_like(x).copy_(grad * x.exp())
