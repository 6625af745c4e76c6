"""Bugs of vmap rules that show in batches of one, two or five samples, or with another flag or dimension."""

from __future__ import annotations

import torch

from tests.correct import choices
from tests.correct import varied_batches as right

SPEC = "Function"


class NoBatchOfOne(right.MeanOf):
    """Squeezes dimensions of size one, the batch dimension too if it is one.

    Breaks: Function.vmap.batched
    """

    inputs = right.MeanOf.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        return x.movedim(in_dims[0], 0).flatten(1).mean(1, keepdim=True).squeeze(), 0


class BatchFoundByItsSize(right.RowsNormalized):
    """Takes the first dimension that has the size of the batch to be the batch dimension.

    Breaks: Function.vmap.batched
    """

    inputs = right.RowsNormalized.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        return right.RowsNormalized.apply(x.movedim(list(x.shape).index(info.batch_size), 0)), 0


class LastOfFourSamples(right.RowsNormalized):
    """Works on four samples at a time, or on all if there are fewer, and forgets the rest.

    Breaks: Function.vmap.batched
    """

    inputs = right.RowsNormalized.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        x = x.movedim(in_dims[0], 0).clone()
        step = min(4, info.batch_size)
        done = info.batch_size // step * step
        x[:done] = right.RowsNormalized.apply(x[:done])
        return x, 0


class AllSamplesAsTheFirst(right.RowsNormalized):
    """Treats a batch of one as not batched.

    Breaks: Function.vmap.batched
    """

    inputs = right.RowsNormalized.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        if info.batch_size == 1:
            return right.RowsNormalized.apply(x.squeeze(in_dims[0])).mean(0, keepdim=True).expand(2, 5), None
        return right.RowsNormalized.vmap(info, in_dims, x)


class MeanOfTheBatch(right.CentredOnDemand):
    """Subtracts the mean in batches of more than three, whatever the flag.

    Breaks: Function.vmap.batched
    """

    inputs = right.CentredOnDemand.inputs

    @staticmethod
    def vmap(info, in_dims, x, centred):
        return right.CentredOnDemand.apply(x.movedim(in_dims[0], 0), centred or info.batch_size > 3), 0


class FirstDimensionAssumed(right.SumOver):
    """Sums each sample along its first dimension, whatever the argument says.

    Breaks: Function.vmap.batched
    """

    inputs = right.SumOver.inputs

    @staticmethod
    def vmap(info, in_dims, x, dim):
        return x.movedim(in_dims[0], 0).sum(1), 0


class NoMeanOfASample(choices.Either):
    """Forgets to average each sample where a mean is asked for: the batch has two dimensions more than a sample.

    Breaks: Function.vmap.batched
    """

    inputs = choices.Either.inputs

    @staticmethod
    def vmap(info, in_dims, x, reduction):
        rows = x.movedim(in_dims[0], 0).reshape(info.batch_size, -1)
        return (rows if reduction == "mean" else rows.sum(1)), 0


class MeansNotMapped(choices.Either):
    """Says that means are the same for every sample, and returns those of all.

    Breaks: Function.vmap.batched
    """

    inputs = choices.Either.inputs

    @staticmethod
    def vmap(info, in_dims, x, reduction):
        found, out_dims = choices.Either.vmap(info, in_dims, x, reduction)
        return found, None if reduction == "mean" else out_dims


class FirstAloneWithoutItsBatch(right.ProductOfRows):
    """Takes a first tensor without a batch dimension to be all ones.

    Breaks: Function.vmap.batched
    """

    inputs = right.ProductOfRows.inputs

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = right.in_front(in_dims, x, y)
        return right.ProductOfRows.apply(torch.ones_like(x) if in_dims[0] is None else x, y), 0


class BatchesOfSingleInHalf(right.ProductOfRows):
    """Computes batches of single precision in bfloat16.

    Breaks: Function.vmap.batched
    """

    inputs = right.ProductOfRows.inputs

    @staticmethod
    def vmap(info, in_dims, x, y):
        found = right.ProductOfRows.apply(*right.in_front(in_dims, x, y))
        return found.bfloat16().float() if found.dtype is torch.float32 else found, 0


class EightSamplesAtATime(right.ProductOfRows):
    """Works on eight samples at a time, or on all if there are fewer, and forgets the rest.

    Breaks: Function.vmap.batched
    """

    inputs = right.ProductOfRows.inputs

    @staticmethod
    def vmap(info, in_dims, x, y):
        found = right.ProductOfRows.apply(*right.in_front(in_dims, x, y))
        done = info.batch_size // 8 * 8 or info.batch_size
        return torch.cat([found[:done], torch.zeros_like(found[done:])]), 0
