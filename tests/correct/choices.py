"""Correct Functions with flags and strings, one value of which is refused, random or without a derivative."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from conformance import Subject
from tests.samples import of_shapes

SPEC = "Function"


inputs = of_shapes((3, 4), others=(False,))


class Reduced(Function):
    """Sums a loss, averages it, or returns it for each element."""

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


class RowLoss(Function):
    """A loss of each row, which leaves it to PyTorch to know the names of reductions."""

    inputs = of_shapes((3, 4), others=("mean",))

    @staticmethod
    def forward(ctx, x, reduction):
        ctx.save_for_backward(x)
        ctx.share = 1 / len(x) if reduction == "mean" else 1.0
        rows = x.square().sum(1)
        return F.l1_loss(rows, torch.zeros_like(rows), reduction=reduction)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * ctx.share * (grad[:, None] if grad.dim() else grad) * x, None


class MeanOrSum(Function):
    """A mean or a sum; any other word is taken for a sum in forward, and refused in backward."""

    inputs = of_shapes((3, 4), others=("mean",))

    @staticmethod
    def forward(ctx, x, reduction):
        ctx.save_for_backward(x)
        ctx.reduction = reduction
        return x.square().mean() if reduction == "mean" else x.square().sum()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x / {"mean": x.numel(), "sum": 1}[ctx.reduction], None


class GeluByWord(Function):
    """Leaves it to PyTorch to know how the error function is approximated."""

    inputs = of_shapes((3, 4))

    @staticmethod
    def forward(ctx, x, approximate="none"):
        ctx.save_for_backward(x)
        ctx.approximate = approximate
        return F.gelu(x, approximate=approximate)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.ops.aten.gelu_backward(grad, x, approximate=ctx.approximate), None


class AnyWordIsExact(Function):
    """Knows one approximation by its first letter, which is all that backward looks at; forward has no other."""

    inputs = of_shapes((3, 4), others=("none",))

    @staticmethod
    def forward(ctx, x, approximate):
        ctx.save_for_backward(x)
        ctx.is_exact = approximate[0] == "n"
        return F.gelu(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if not ctx.is_exact:
            raise ValueError("only the exact function has a gradient")
        return torch.ops.aten.gelu_backward(grad, x), None


class ReversedOnDemand(Function):
    """Reverses the gradient if a flag is set; the result is the same."""

    @staticmethod
    def forward(ctx, x, is_reversed):
        ctx.is_reversed = is_reversed
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return (-2 if ctx.is_reversed else 2) * grad, None


class RoundedOnDemand(Function):
    """Rounds if a flag is set, and passes the gradient straight through."""

    @staticmethod
    def forward(ctx, x, hard):
        return x.round() if hard else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class ClippedOnDemand(Function):
    """Clips if a flag is set, and passes the gradient straight through."""

    @staticmethod
    def forward(ctx, x, clip):
        return x.clamp(-0.5, 0.5) if clip else x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class HardOnDemand(Function):
    """Keeps the largest share of each row only, if a flag is set, with the gradient of a plain softmax."""

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
    """Drops small weights if a flag is set; they get a gradient all the same."""

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
    """Quantizes to multiples of a scale if a flag is set, with the usual surrogate gradient of the scale."""

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


class QuantizedByTheLargestOnDemand(Function):
    """Quantizes by the largest number, which alone changes the results a little and has no surrogate gradient."""

    inputs = of_shapes((3, 4), others=(False,))

    @staticmethod
    def forward(ctx, x, quantize):
        ctx.save_for_backward(x)
        ctx.quantize = quantize
        scale = x.abs().max() / 127
        return (x / scale).round() * scale if quantize else x.clone()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < x.abs().max()) if ctx.quantize else grad, None


class RefusedInBackward(Function):
    """Refuses in backward one value of its flag, for which it has no gradient."""

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
    """Refuses in backward one value of its flag, by an error about shapes."""

    @staticmethod
    def forward(ctx, x, rows):
        ctx.shape, ctx.rows = x.shape, rows
        return x.sum(1) if rows else x.sum(0)

    @staticmethod
    def backward(ctx, grad):
        if ctx.rows:
            raise RuntimeError(f"the gradient must match a sum over columns: {tuple(grad.shape)}")
        return grad.expand(ctx.shape).clone(), None


class RefusedInForward(Function):
    """Refuses in forward all but one value of a string option."""

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
    """Computes another function outside training, and returns no gradient for it."""

    inputs = of_shapes((3, 4), others=(True,))

    @staticmethod
    def forward(ctx, x, training):
        ctx.training = training
        return 2 * x if training else 2 * x + 1

    @staticmethod
    def backward(ctx, grad):
        return (2 * grad if ctx.training else None), None


class NotDifferentiableOnDemand(Function):
    """Returns indices instead of values if a flag is set, and marks them as non-differentiable."""

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
    """Draws random numbers in training; its samples have the flag on and off."""

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
    """Adds noise in training; rounds otherwise, and passes the gradient straight through."""

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
    """Works in place if a flag is set."""

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
    """Sums rows by segment; if a flag says that rows are sorted, it relies on that."""

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
    """Updates a counter of its module in training, as running statistics do."""

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
    """Sums or averages in forward, backward, jvp and vmap alike."""

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
    """Refuses in vmap one value of its string option."""

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
