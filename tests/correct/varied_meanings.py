"""Correct Functions whose numbers have a meaning: an index to ignore, a divisor, bounds, bits."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.samples import of_shapes

SPEC = "Function"

_DOUBLE = torch.float64


class EmbeddingWithPadding(Function):
    """Picks rows of an embedding; the padding row, which the sample does not pick, gets no gradient on purpose."""

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
    """Computes a cross entropy; rows with the target to ignore do not count."""

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
    """Computes a softmax within each head; the number of heads must divide the row, or PyTorch refuses it."""

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
    """Clamps between two bounds, and refuses them in the wrong order."""

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
    """Computes a Huber loss, and refuses a delta that is not positive."""

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
    """Rounds to a number of bits, zero meaning not at all, and passes the gradient straight through."""

    inputs = of_shapes((3, 4), others=(0,))

    @staticmethod
    def forward(ctx, x, bits):
        return (x * 2**bits).round() / 2**bits if bits else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class LargestFew(Function):
    """Keeps the largest entries of each row; how many is an argument."""

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
    """Subtracts the mean, and updates a running mean with a momentum that is one in the sample."""

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
    """Clamps its input in place, at limits that the sample does not reach, and marks it."""

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
    """Adds two inputs, and returns the incoming gradient itself for both."""

    inputs = of_shapes((3, 4), (3, 4))

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class HookTakenAway(Function):
    """Registers a hook on its input, and removes it within forward."""

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
    """Returns a result and a gradient with the strides of its input."""

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


class _PaddedRows(EmbeddingWithPadding):
    @staticmethod
    def inputs():
        yield torch.randn(4, 3, dtype=_DOUBLE, requires_grad=True), torch.tensor([0, 1, 3, 2]), 1


#: Its gradient is no derivative, but that of PyTorch's own embedding.
PaddingAsPyTorchDoes = Subject(
    _PaddedRows,
    inputs=_PaddedRows.inputs,
    reference=lambda weight, index, padding: torch.nn.functional.embedding(index, weight, padding_idx=padding),
)
