"""Bugs of vmap rules of Functions that draw random numbers."""

from __future__ import annotations

import torch

from tests.correct import vmap as right

SPEC = "Function"

inputs = right.noisy_inputs


class NoiseWithoutItsSample(right.Noisy):
    """Multiplies the noise by itself in vmap, not by the samples.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        (_, noise), dims = right.Noisy.vmap(info, in_dims, x)
        return (noise * noise, noise), dims


class BatchAtTheFront(right.RandomOnTheWay):
    """Takes the first dimension of the result for that of the batch, wherever the batch is.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        return right.RandomOnTheWay.apply(x), 0


class CentredOverTheBatch(right.RarelyNoisy):
    """Subtracts the mean of the whole batch from each sample, where forward subtracts none.

    Breaks: Function.vmap.batched
    """

    inputs = right.RarelyNoisy.inputs

    @staticmethod
    def vmap(info, in_dims, x):
        (found, noise), dims = right.RarelyNoisy.vmap(info, in_dims, x)
        return (found - found.mean(), noise), dims


class FirstSampleForAll(right.RandomOnTheWay):
    """Returns the root of the first sample for every sample.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x):
        first = right.RandomOnTheWay.apply(x.select(in_dims[0], 0))
        return torch.stack([first] * info.batch_size), 0
