"""Bugs that show with another flag, string or enum member than in the sample."""

from __future__ import annotations

from enum import Enum

import torch
from torch.autograd import Function

from tests.correct import choices as right
from tests.samples import of_shapes

SPEC = "Function"


inputs = of_shapes((3, 2), others=(False,))


class _Mean(Function):
    """Sums the elements, or averages them if a flag is set; correct."""

    @staticmethod
    def forward(x, mean):
        return x.mean() if mean else x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.mean = inputs
        ctx.shape, ctx.count = x.shape, x.numel()

    @staticmethod
    def backward(ctx, grad):
        return (grad / ctx.count if ctx.mean else grad).expand(ctx.shape).clone(), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.mean() if ctx.mean else tangent.sum()

    @staticmethod
    def vmap(info, in_dims, x, mean):
        rows = x.movedim(in_dims[0], 0).reshape(info.batch_size, -1)
        return (rows.mean(1) if mean else rows.sum(1)), 0


class MeanWithoutItsCount(_Mean):
    """Ignores in backward a flag that turns a sum into a mean.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad):
        return grad.expand(ctx.shape).clone(), None


class SquaredWithoutItsTwo(Function):
    """Forgets a factor of two in backward, if a flag is set that the sample does not set.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def forward(ctx, x, squared):
        ctx.save_for_backward(x)
        ctx.squared = squared
        return x * x if squared else 3 * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x if ctx.squared else 3 * grad, None


class MeanOfWordsWithoutItsCount(Function):
    """Ignores in backward that a reduction may be 'mean'.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 2), others=("sum",))

    @staticmethod
    def forward(ctx, x, reduction):
        ctx.save_for_backward(x)
        ctx.reduction = reduction
        loss = x * x
        if reduction == "mean":
            return loss.mean()
        return loss.sum() if reduction == "sum" else loss

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x, None


class OneLossForEachRow(right.RowLoss):
    """Multiplies all rows by the first gradient, if the loss is not reduced: a word that its source never mentions.

    Breaks: Function.backward.gradient
    """

    inputs = right.RowLoss.inputs

    @staticmethod
    def backward(ctx, grad):
        return right.RowLoss.backward(ctx, grad.reshape(-1)[0])


class ExactForTanh(right.GeluByWord):
    """Returns the exact gradient for an approximation too: a word that its source never mentions.

    Breaks: Function.backward.gradient
    """

    inputs = right.GeluByWord.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.ops.aten.gelu_backward(grad, x), None


class LargestLikeSums(Function):
    """Takes numbers together by a word that PyTorch knows; hands every number its gradient, as only a sum does.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((4, 3), others=(torch.tensor([0, 1, 0, 1]), "sum"))

    @staticmethod
    def forward(ctx, x, index, reduce):
        ctx.save_for_backward(index)
        rows = index[:, None].expand_as(x)
        return x.new_zeros(2, x.shape[1]).scatter_reduce(0, rows, x, reduce, include_self=False)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        return grad[index], None, None


class ExactForAnApproximation(Function):
    """Returns the gradient of tanh for 'rough' as well, a string that is not in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 2), others=("none",))

    @staticmethod
    def forward(ctx, x, approximate):
        ctx.save_for_backward(x)
        ctx.how = approximate
        return x.atan() if ctx.how == "rough" else x.tanh()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (1 - x.tanh().square()), None


class WordWhereTheSampleHasNone(Function):
    """Forgets an activation, which is None in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 2), (2,), others=(None,))

    @staticmethod
    def forward(ctx, x, bias, activation):
        return (x + bias).tanh() if activation == "tanh" else x + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum(0), None


class _Kind(Enum):
    SINE = "sine"
    EXPONENTIAL = "exponential"


class ExponentialLikeASine(Function):
    """Returns the gradient of one member of an enumeration for the other.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((3, 2), others=(_Kind.SINE,))

    @staticmethod
    def forward(ctx, x, kind):
        ctx.save_for_backward(x)
        return x.sin() if kind is _Kind.SINE else x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos(), None


class OptionsInADict(Function):
    """Ignores in backward a flag that is in a dict.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield torch.randn(3, 2, dtype=torch.float64, requires_grad=True), {"negated": False}

    @staticmethod
    def forward(ctx, x, options):
        ctx.save_for_backward(x)
        return -x.exp() if options["negated"] else x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.exp(), None


class RowsWithoutTheirDimension(Function):
    """Expands the gradient along the wrong dimension if a flag is set.

    Breaks: Function.backward.any-input
    """

    @staticmethod
    def forward(ctx, x, rows):
        ctx.shape = x.shape
        return x.sum(1) if rows else x.sum(0)

    @staticmethod
    def backward(ctx, grad):
        return grad.expand(ctx.shape).clone(), None


class LastFlagKeptOnTheClass(_Mean):
    """Keeps the flag on the class, where the next call overwrites it.

    Breaks: Function.forward.calls-independent
    """

    mean = False

    @staticmethod
    def setup_context(ctx, inputs, output):
        _Mean.setup_context(ctx, inputs, output)
        LastFlagKeptOnTheClass.mean = ctx.mean

    @staticmethod
    def backward(ctx, grad):
        ctx.mean = LastFlagKeptOnTheClass.mean
        return _Mean.backward(ctx, grad)


class FirstFlagKeptInACache(_Mean):
    """Caches a factor for backward by shape, whatever the flag.

    Breaks: Function.backward.gradient
    """

    kept: dict[torch.Size, float] = {}

    @staticmethod
    def backward(ctx, grad):
        factor = FirstFlagKeptInACache.kept.setdefault(ctx.shape, 1 / ctx.count if ctx.mean else 1.0)
        return (factor * grad).expand(ctx.shape).clone(), None


class TangentWithoutItsCount(_Mean):
    """Ignores the flag in jvp.

    Breaks: Function.jvp.tangent
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.sum()


class TangentOfAnotherWord(Function):
    """Computes the tangent of one of two strings for both.

    Breaks: Function.jvp.tangent
    """

    inputs = of_shapes((3, 2), others=("sine",))

    @staticmethod
    def forward(ctx, x, kind):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.kind = kind
        match kind:
            case "sine":
                return x.sin()
            case "exponential":
                return x.exp()
        raise ValueError(kind)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.cos() if ctx.kind == "sine" else x.exp()), None

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return tangent * x.cos()


class BatchWithoutItsCount(_Mean):
    """Ignores the flag in vmap.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, mean):
        return _Mean.vmap(info, in_dims, x, False)


class BatchOfAnotherWord(Function):
    """Computes one of two reductions for both in vmap.

    Breaks: Function.vmap.batched
    """

    inputs = of_shapes((3, 2), others=("sum",))

    @staticmethod
    def forward(x, reduction):
        return {"sum": torch.sum, "mean": torch.mean}[reduction](x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, reduction = inputs
        ctx.shape, ctx.factor = x.shape, 1 / x.numel() if reduction == "mean" else 1.0

    @staticmethod
    def backward(ctx, grad):
        return (ctx.factor * grad).expand(ctx.shape).clone(), None

    @staticmethod
    def vmap(info, in_dims, x, reduction):
        return x.movedim(in_dims[0], 0).reshape(info.batch_size, -1).sum(1), 0


class ScaledWhereNothingIsDropped(Function):
    """Divides the gradient by the keep probability outside training too, where nothing is dropped.

    Breaks: Function.backward.gradient
    """

    @staticmethod
    def inputs():
        yield torch.randn(20, dtype=torch.float64, requires_grad=True), 0.25, True

    @staticmethod
    def forward(ctx, x, p, training):
        mask = (torch.rand_like(x) >= p).to(x.dtype) / (1 - p) if training else torch.ones_like(x)
        ctx.save_for_backward((mask != 0).to(x.dtype))
        ctx.kept = 1 - p
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask / ctx.kept, None, None


class MeanThatKeepsItsDimension(Function):
    """Adds in backward the dimension that forward removes, and another one if forward kept it.

    Breaks: Function.backward.any-input
    """

    inputs = of_shapes((3, 4), others=(0, False))

    @staticmethod
    def forward(ctx, x, dim, keepdim):
        ctx.shape, ctx.dim = x.shape, dim
        return x.mean(dim, keepdim=keepdim)

    @staticmethod
    def backward(ctx, grad):
        return grad.unsqueeze(ctx.dim).expand(ctx.shape) / ctx.shape[ctx.dim], None, None


class CausalInForwardAlone(Function):
    """Forgets in backward the mask that forward applies if asked to, and so gives the first query a gradient, too.

    Breaks: Function.backward.gradient
    """

    inputs = of_shapes((4, 3), (4, 3), others=(False,))

    @staticmethod
    def forward(ctx, query, key, causal):
        scores = query @ key.mT
        ctx.save_for_backward(query, key)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return (scores.masked_fill(later, -torch.inf) if causal else scores).softmax(-1)

    @staticmethod
    def backward(ctx, grad):
        query, key = ctx.saved_tensors
        share = (query @ key.mT).softmax(-1)
        scores = share * (grad - (grad * share).sum(-1, keepdim=True))
        return scores @ key, scores.mT @ query, None
