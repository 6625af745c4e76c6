"""Random numbers under :func:`torch.vmap`: whether equal samples draw the same ones, and samples do not mix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import torch

from conformance.kit import seeds, tolerances
from conformance.kit.calls import SampleCall
from conformance.kit.subject import Subject
from conformance.kit.tensors import dense
from conformance.kit.variations.batches import BATCH_SIZE, Batch, batch, batched_samples, choices, variants
from conformance.kit.variations.transforms import Tensors, draws_numbers, outputs, tensors
from conformance.kit.world import World

#: How often to draw: samples that rarely drop a number can be equal by chance.
SEEDS = range(20)


def batches_of_the_same(subject: Subject, world: World) -> Iterator[Batch]:
    """Yield batches that hold a sample several times, for every sample whose result depends on the seed."""
    for sample in batched_samples(subject, world):
        if draws_numbers(sample) and _follows_the_seed(sample):
            every = choices(sample)
            for in_dims in [every[0], every[-1]]:
                yield batch(sample, in_dims, [tensors(sample)] * BATCH_SIZE)


def with_another_last_sample(subject: Subject, world: World) -> Iterator[tuple[Batch, Batch]]:
    """Yield pairs of batches that differ in their last sample alone, for every sample that draws random numbers."""
    for sample in filter(draws_numbers, batched_samples(subject, world)):
        *others, last, another = variants(sample, BATCH_SIZE + 1)
        every = choices(sample)
        for in_dims in [every[0], every[-1]]:
            yield batch(sample, in_dims, [*others, last]), batch(sample, in_dims, [*others, another])


def results_of(made: Batch, seed: int, randomness: str) -> tuple[Tensors, object]:
    """Compute a batch from a seed; return the generators' states after it too, which tell how much was drawn."""
    found = made.map(partial(outputs, made.sample, seed=seed), randomness=randomness)
    return found, seeds.states()


def follows_its_values(one: Batch, other: Batch, seed: int) -> bool:
    """Whether the last sample of two batches gives different results, called by itself from the same seed."""
    return not same_results(*(outputs(made.sample, made.rows[-1], seed) for made in (one, other)))


def _follows_the_seed(sample: SampleCall) -> bool:
    """Whether calls with different seeds mostly differ: dropping one number in a thousand shows nothing."""
    calls = [outputs(sample, {}, seed) for seed in SEEDS]
    return 2 * sum(not same_results(one, other) for one, other in pairwise(calls)) >= len(SEEDS)


def same_results(one: Tensors, other: Tensors) -> bool:
    """Whether two calls returned the same results, up to rounding."""
    return len(one) == len(other) and all(map(_close, one, other))


def samples_are_alike(results: Sequence[torch.Tensor]) -> bool:
    """Whether every sample of a batch has the same results.

    >>> samples_are_alike([torch.ones(3, 2)]), samples_are_alike([torch.ones(3, 2), torch.arange(3.0)])
    (True, False)
    """
    return all(_close(whole, whole[:1].expand_as(whole)) for whole in map(dense, results))


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(
        dense(one), dense(other), rtol=tolerances.ABOUT_RTOL, atol=tolerances.ABOUT_ATOL, equal_nan=True
    )
