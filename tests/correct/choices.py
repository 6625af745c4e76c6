"""Correct Functions with flags and words of which one value is another matter: refused, random, no derivative."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.samples import of_shapes

SPEC = "Function"


inputs = of_shapes((3, 4), others=(False,))


class Reduced(Function):
    """A loss added up, averaged, or as it is."""

    inputs = of_shapes((3, 4), others=("none",))

    @staticmethod
    def forward(ctx, x, reduction):
        if reduction not in ("none", "sum", "mean"):
            raise ValueError(reduction)
        ctx.save_for_backward(x)
        ctx.reduction = reduction
        loss = x * x
        return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        right = 2 * grad * x
        return right / x.numel() if ctx.reduction == "mean" else right, None


class ReversedOnDemand(Function):
    """Reverses the gradient if it is told to: its result is the same."""

    @staticmethod
    def forward(ctx, x, is_reversed):
        ctx.is_reversed = is_reversed
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return (-2 if ctx.is_reversed else 2) * grad, None


class RoundedOnDemand(Function):
    """Rounds where it is told to, and lets the gradient straight through."""

    @staticmethod
    def forward(ctx, x, hard):
        return x.round() if hard else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class ClippedOnDemand(Function):
    """Clips where it is told to, and lets the gradient straight through."""

    @staticmethod
    def forward(ctx, x, clip):
        return x.clamp(-0.5, 0.5) if clip else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class HardOnDemand(Function):
    """Gives the largest share alone if it is told to, with the gradient of all shares."""

    @staticmethod
    def forward(ctx, x, hard):
        share = x.softmax(-1)
        ctx.save_for_backward(share)
        return share * (share == share.amax(-1, keepdim=True)) if hard else share.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        return share * (grad - (grad * share).sum(-1, keepdim=True)), None


class PrunedOnDemand(Function):
    """Multiplies many rows, without small weights if it is told to; those have a gradient all the same."""

    inputs = of_shapes((5, 12), (12, 10), others=(False,))

    @staticmethod
    def forward(ctx, x, weight, prune):
        used = weight * (weight.abs() > 0.3) if prune else weight
        ctx.save_for_backward(x, used)
        return x @ used

    @staticmethod
    def backward(ctx, grad):
        x, used = ctx.saved_tensors
        return grad @ used.t(), x.t() @ grad, None


class QuantizedOnDemand(Function):
    """Multiplies by a scale what was rounded to it, with the gradient of the scale that is usual for that."""

    @staticmethod
    def inputs():
        yield (
            torch.randn(3, 4, dtype=torch.float64, requires_grad=True),
            torch.tensor(0.3, dtype=torch.float64, requires_grad=True),
            False,
        )

    @staticmethod
    def forward(ctx, x, scale, quantize):
        ctx.save_for_backward(x, scale)
        ctx.quantize = quantize
        return (x / scale).round() * scale if quantize else x * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        if ctx.quantize:
            return grad, (grad * ((x / scale).round() - x / scale)).sum(), None
        return grad * scale, (grad * x).sum(), None


class RefusedInBackward(Function):
    """Computes with a flag what it cannot differentiate, and says so."""

    @staticmethod
    def forward(ctx, x, exact):
        ctx.save_for_backward(x)
        ctx.exact = exact
        return x.erf() if exact else x.tanh()

    @staticmethod
    def backward(ctx, grad):
        if ctx.exact:
            raise NotImplementedError("no gradient of the exact one")
        (x,) = ctx.saved_tensors
        return grad * (1 - x.tanh() ** 2), None


class ShapeRefusedInBackward(Function):
    """Sums over rows with a flag, which it cannot differentiate, and says so in words of shapes."""

    @staticmethod
    def forward(ctx, x, rows):
        ctx.shape = x.shape
        return x.sum(1) if rows else x.sum(0)

    @staticmethod
    def backward(ctx, grad):
        if grad.shape[0] != ctx.shape[1]:
            raise RuntimeError(f"the gradient must match a sum over columns: {tuple(grad.shape)}")
        return grad.expand(ctx.shape).clone(), None


class RefusedInForward(Function):
    """Takes one of its words alone."""

    inputs = of_shapes((3, 4), others=("python",))

    @staticmethod
    def forward(ctx, x, backend):
        if backend == "triton":
            raise RuntimeError("there is no triton here")
        if backend == "python":
            return 3 * x
        raise ValueError(backend)

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad, None


class NoGradientForTesting(Function):
    """If it is not in training, it computes by another way, of which nobody wants a gradient."""

    inputs = of_shapes((3, 4), others=(True,))

    @staticmethod
    def forward(ctx, x, training):
        ctx.training = training
        return 2 * x if training else 2 * x + 1

    @staticmethod
    def backward(ctx, grad):
        return (2 * grad if ctx.training else None), None


class NotDifferentiableOnDemand(Function):
    """Gives places instead of values if it is told to, and marks them."""

    @staticmethod
    def forward(ctx, x, places):
        ctx.shape = x.shape
        if places:
            found = x.argsort(-1)
            ctx.mark_non_differentiable(found)
            return found
        return x.sum(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.unsqueeze(-1).expand(ctx.shape).clone(), None


class DropsInTraining(Function):
    """Draws random numbers in training; given with and without."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), True
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), False

    @staticmethod
    def forward(ctx, x, training):
        mask = torch.rand_like(x).round() * 2 if training else torch.ones_like(x)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


class NoiseInPlaceOfRounding(Function):
    """Adds noise in training, and rounds outside of it, where the gradient goes straight through."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), True

    @staticmethod
    def forward(ctx, x, training):
        return x + torch.rand_like(x) - 0.5 if training else x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class InPlaceOnDemand(Function):
    """Writes into its input if it is told to."""

    @staticmethod
    def forward(ctx, x, inplace):
        if inplace:
            ctx.mark_dirty(x)
            return x.mul_(2)
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, None


class SegmentsInOrder(Function):
    """Adds rows up by segment; if its caller says that rows come in order, it takes those from end to end."""

    @staticmethod
    def inputs():
        yield torch.randn(4, 2, dtype=torch.float64, requires_grad=True), torch.tensor([1, 0, 1, 0]), False

    @staticmethod
    def forward(ctx, x, segment, is_sorted):
        ctx.save_for_backward(segment)
        if not is_sorted:
            return x.new_zeros(2, 2).index_add(0, segment, x)
        first = int((segment == 0).sum())
        return torch.stack([x[:first].sum(0), x[first:].sum(0)])

    @staticmethod
    def backward(ctx, grad):
        (segment,) = ctx.saved_tensors
        return grad[segment], None, None


class CountsCallsInTraining(Function):
    """Has its module count what it sees in training, as running statistics do."""

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=torch.float64, requires_grad=True), torch.nn.BatchNorm1d(4), False

    @staticmethod
    def forward(ctx, x, layer, training):
        if training:
            layer.num_batches_tracked += 1
        ctx.factor = 1.0 + float(layer.num_batches_tracked)
        return ctx.factor * x

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad, None, None


class Either(Function):
    """A sum or a mean with everything that there is: jvp and vmap ask for the word too."""

    inputs = of_shapes((3, 2), others=("sum",))

    @staticmethod
    def forward(x, reduction):
        return x.mean() if reduction == "mean" else x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, reduction = inputs
        ctx.shape, ctx.factor = x.shape, 1 / x.numel() if reduction == "mean" else 1.0

    @staticmethod
    def backward(ctx, grad):
        return (ctx.factor * grad).expand(ctx.shape).clone(), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return ctx.factor * tangent.sum()

    @staticmethod
    def vmap(info, in_dims, x, reduction):
        rows = x.movedim(in_dims[0], 0).reshape(info.batch_size, -1)
        return (rows.mean(1) if reduction == "mean" else rows.sum(1)), 0


class NoBatchOfMeans(Either):
    """Its vmap refuses one word."""

    inputs = of_shapes((3, 2), others=("sum",))

    @staticmethod
    def vmap(info, in_dims, x, reduction):
        if reduction == "mean":
            raise NotImplementedError(reduction)
        return Either.vmap(info, in_dims, x, reduction)


class _Scaled(Function):
    @staticmethod
    def forward(ctx, x, double):
        ctx.double = double
        return 2 * x if double else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return 0.1 * grad, None


#: Scales the gradient, and doubles the result where it is told to, as its formula says.
ScaledGradient = Subject(
    _Scaled,
    inputs=lambda: [(torch.randn(3, 2, dtype=torch.float64, requires_grad=True), False)],
    formula=lambda args, grads: (0.1 * grads[0], None),
)
