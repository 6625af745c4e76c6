"""Bugs that show with other numbers than the sample's: a factor other than one, a default that is passed."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tests.correct import varied_numbers as right
from tests.samples import of_shapes

SPEC = "Function"


class FactorOfOneForgotten(right.Scaled):
    """Forgets a factor, which is one in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.Scaled.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos(), None


class FactorSquared(right.Scaled):
    """Multiplies by a factor twice, which is one in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.Scaled.inputs

    @staticmethod
    def backward(ctx, grad):
        return right.Scaled.backward(ctx, ctx.scale * grad)


class DefaultTakenForGranted(right.Scaled):
    """Forgets a factor that is one by default, and which the sample does not pass.

    Breaks: Function.backward.gradient
    """

    inputs = right.ScaledByDefault.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos(), None


class DefaultIsNoArgument(right.Scaled):
    """Returns one gradient even if the factor is passed too.

    Breaks: Function.backward.count
    """

    inputs = right.ScaledByDefault.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.scale * grad * x.cos()


class DefaultDimensionIsNoArgument(right.CumulativeSum):
    """Returns one gradient even if the dimension is passed too.

    Breaks: Function.backward.count
    """

    inputs = right.CumulativeSum.inputs

    @staticmethod
    def backward(ctx, grad):
        return right.CumulativeSum.backward(ctx, grad)[0]


class DefaultDimensionTakenForGranted(right.CumulativeSum):
    """Assumes the dimension that is the default, and which the sample does not pass.

    Breaks: Function.backward.gradient
    """

    inputs = right.CumulativeSum.inputs

    @staticmethod
    def backward(ctx, grad):
        return grad.flip(-1).cumsum(-1).flip(-1), None


class FactorInPlaceOfNoneForgotten(right.SumOrMeanPerhapsScaled):
    """Forgets a factor that is None by default; the sample does not pass it.

    Breaks: Function.backward.gradient
    """

    inputs = right.SumOrMeanPerhapsScaled.inputs

    @staticmethod
    def backward(ctx, grad):
        ctx.scale = None
        return right.SumOrMeanPerhapsScaled.backward(ctx, grad)


class DefaultWordTakenForGranted(right.SumOrMeanPerhapsScaled):
    """Forgets to average; the sample leaves the word that asks for it at its default.

    Breaks: Function.backward.gradient
    """

    inputs = right.SumOrMeanPerhapsScaled.inputs

    @staticmethod
    def backward(ctx, grad):
        ctx.reduction = "sum"
        return right.SumOrMeanPerhapsScaled.backward(ctx, grad)


class FlagBesideNoneTakenForGranted(right.SumOrMeanPlusBias):
    """Forgets to average; the sample passes neither the flag nor the bias before it, which is None by default.

    Breaks: Function.backward.gradient
    """

    inputs = right.SumOrMeanPlusBias.inputs

    @staticmethod
    def backward(ctx, grad):
        ctx.mean = False
        return right.SumOrMeanPlusBias.backward(ctx, grad)


class PartOfZeroForgotten(right.Smoothed):
    """Forgets a term whose factor is zero in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.Smoothed.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos(), None


class WeightsOfOneForgotten(right.Weighted):
    """Forgets constant weights, which are one in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.Weighted.inputs

    @staticmethod
    def backward(ctx, grad):
        x, weight, offset = ctx.saved_tensors
        return 2 * grad * (x * weight + offset), None, None


class OffsetOfZeroForgotten(right.Weighted):
    """Forgets a constant offset, which is zero in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.Weighted.inputs

    @staticmethod
    def backward(ctx, grad):
        x, weight, _ = ctx.saved_tensors
        return 2 * grad * weight * (x * weight), None, None


class MeanOfEqualWeights(right.NormalizedWeights):
    """Assumes equal weights, as in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.NormalizedWeights.inputs

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return (grad[:, None] / len(weight)).expand(len(grad), len(weight)), None


class MeanOfAllRows(right.MeanOfThoseKept):
    """Divides by the number of rows; the mask of the sample keeps all of them.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeanOfThoseKept.inputs

    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return kept[:, None] * grad / len(kept), None


class KnotsOneApart(right.BetweenSortedKnots):
    """Assumes knots at a distance of one, as in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.BetweenSortedKnots.inputs

    @staticmethod
    def backward(ctx, grad):
        rise, _ = ctx.saved_tensors
        return grad * rise, None, None


class TemperatureOfOne(right.PositiveTemperature):
    """Forgets to divide by a temperature, which is one in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.PositiveTemperature.inputs

    @staticmethod
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        return share * (grad - (grad * share).sum(-1, keepdim=True)), None


class PowerByDimensions(right.RaisedTo):
    """Assumes that vectors are squared and matrices cubed, as in the samples.

    Breaks: Function.backward.gradient
    """

    inputs = right.RaisedTo.inputs

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        power = 2 if x.dim() == 1 else 3
        return power * grad * x ** (power - 1), None


class LastDimensionAlone(right.SumAlong):
    """Assumes that it sums along the last dimension, as in both samples.

    Breaks: Function.backward.gradient
    """

    inputs = right.SumAlong.inputs

    @staticmethod
    def backward(ctx, grad):
        whole = grad.unsqueeze(-1).expand(*grad.shape, ctx.shape[ctx.dim])
        return whole.reshape(ctx.shape), None


class LargestOfTheLastDimension(right.TopAlong):
    """Puts gradients along the last dimension, as in the sample; along another one at elements that forward ignores.

    Breaks: Function.backward.gradient
    """

    inputs = right.TopAlong.inputs

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(-1, places, grad), None, None, None


class LargestOfEachRowAlone(right.LargestAlong):
    """Puts gradients along rows, as in the sample; for the largest of columns that fits if there are as many rows.

    Breaks: Function.backward.gradient
    """

    inputs = right.LargestAlong.inputs

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(-1, place.unsqueeze(-1), grad.unsqueeze(-1)), None


class RadiusOfOneForgotten(right.OnASphere):
    """Forgets the number that a tensor holds, which is one in the sample.

    Breaks: Function.backward.gradient
    """

    inputs = right.OnASphere.inputs

    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        length = x.norm(dim=-1, keepdim=True)
        unit = x / length
        return (grad - unit * (unit * grad).sum(-1, keepdim=True)) / length, None


class PatchesPutBackOneByOne(Function):
    """Puts patches back one step apart, as in the sample; further apart there are fewer than PyTorch then asks for.

    Breaks: Function.backward.any-input
    """

    inputs = of_shapes((2, 3, 5, 5), others=(1,))

    @staticmethod
    def forward(ctx, x, stride):
        ctx.size = x.shape[2:]
        return functional.unfold(x, 3, stride=stride)

    @staticmethod
    def backward(ctx, grad):
        return functional.fold(grad, ctx.size, 3), None


class PartOfAChunkForgotten(right.DecaysInChunks):
    """Leaves out what comes after the last whole chunk; the sample has none.

    Breaks: Function.backward.gradient
    """

    inputs = right.DecaysInChunks.inputs

    @staticmethod
    def backward(ctx, grad):
        found, _ = right.DecaysInChunks.backward(ctx, grad)
        whole = found.shape[1] // ctx.chunk * ctx.chunk
        return torch.cat([found[:, :whole], torch.zeros_like(found[:, whole:])], 1), None


class EveryNegativeDimensionIsTheLast(right.CumulativeSumAlong):
    """Takes each dimension that is counted from the end for the last one.

    Breaks: Function.backward.gradient
    """

    inputs = right.CumulativeSumAlong.inputs

    @staticmethod
    def backward(ctx, grad):
        dim = ctx.dim if ctx.dim >= 0 else grad.dim() - 1
        return grad.flip(dim).cumsum(dim).flip(dim), None


class SmallNumberOutsideTheRoot(right.RootMeanSquare):
    """Adds the small number to the root in backward, and to what it is taken of in forward.

    Breaks: Function.backward.gradient
    """

    inputs = right.RootMeanSquare.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        size = x.square().mean(-1, keepdim=True).sqrt() + ctx.eps
        return grad / size - x * (grad * x).mean(-1, keepdim=True) / size**3, None


class MeanOverIgnoredLabelsToo(right.MeanOfLogarithmsOfShares):
    """Divides by the number of all labels, of which the sample ignores none.

    Breaks: Function.backward.gradient
    """

    inputs = right.MeanOfLogarithmsOfShares.inputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        shares, labels, kept = ctx.saved_tensors
        found = shares - functional.one_hot(labels, shares.shape[-1])
        return grad * found * kept[:, None] / len(kept), None, None
