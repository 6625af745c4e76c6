"""Bugs of vmap rules that show in batches of one, of two or of five samples, or at another flag or dimension."""

from __future__ import annotations

from tests.correct import varied_batches as right

SPEC = "Function"


class NoBatchOfOne(right.MeanOf):
    """Drops dimensions of one, and with them the batch if it is one.

    Breaks: Function.vmap.batched
    """

    inputs = right.MeanOf.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        return x.movedim(in_dims[0], 0).flatten(1).mean(1, keepdim=True).squeeze(), 0


class BatchFoundByItsSize(right.RowsNormalized):
    """Looks for the dimension that is as long as the batch, and takes the first one.

    Breaks: Function.vmap.batched
    """

    inputs = right.RowsNormalized.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        return right.RowsNormalized.apply(x.movedim(list(x.shape).index(info.batch_size), 0)), 0


class LastOfFourSamples(right.RowsNormalized):
    """Works on four samples at a time, or on as many as there are, and leaves out what is over.

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
    """Takes a batch of one for a sample that is passed to all, and gives it no dimension.

    Breaks: Function.vmap.batched
    """

    inputs = right.RowsNormalized.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        if info.batch_size == 1:
            return right.RowsNormalized.apply(x.squeeze(in_dims[0])).mean(0, keepdim=True).expand(2, 5), None
        return right.RowsNormalized.vmap(info, in_dims, x)


class MeanOfTheBatch(right.CentredOnDemand):
    """Subtracts the mean where it is not told to, in a batch of which the samples are matrices.

    Breaks: Function.vmap.batched
    """

    inputs = right.CentredOnDemand.inputs

    @staticmethod
    def vmap(info, in_dims, x, centred):
        return right.CentredOnDemand.apply(x.movedim(in_dims[0], 0), centred or info.batch_size > 3), 0
