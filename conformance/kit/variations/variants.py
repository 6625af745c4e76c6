"""Derive samples: of another dtype, longer, with an empty first dimension, with numbers moved apart.

A subject may refuse them. What it accepts it must differentiate correctly, like the sample itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

import torch

from conformance.kit import tolerances
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import need
from conformance.kit.modes import DrawingMode
from conformance.kit.numerics.gradient_checks import gradients_of, result_epsilon
from conformance.kit.numerics.nearby import perturbed, points_near
from conformance.kit.sample_calls import in_double
from conformance.kit.tensors import differentiable, is_arrangeable, is_strided, to_double
from conformance.kit.traits import is_symmetric
from conformance.kit.variations.meaning import meant
from conformance.kit.variations.sizes import stretched
from conformance.kit.world import World

_Found = TypeVar("_Found")

JUDGED_BY_SPEC = "its spec defines the gradient, and has clauses for it"


def in_dtype(sample: SampleCall, dtype: torch.dtype) -> SampleCall | None:
    """Return the sample in another precision; None if that changes nothing, or is meaningless for its numbers."""
    tensors = {at: value.detach() for at, value in enumerate(sample.values) if is_arrangeable(value)}
    is_half = torch.finfo(dtype).bits < 32
    if is_half and any(value.dtype.is_complex for value in tensors.values()):
        return None
    moved = {at: value.to(dtype.to_complex() if value.dtype.is_complex else dtype) for at, value in tensors.items()}
    if all(moved[at].dtype == value.dtype for at, value in tensors.items()):
        return None
    return replace(sample.having(moved), may_not_end=True)


def without_rows(sample: SampleCall, world: World, count: int | None = None) -> SampleCall | None:
    """Return the sample with an empty first dimension in its first input and in all inputs of the same length.

    Args:
        sample: what it is derived from.
        world: the ranks, which leave rows of the same inputs out, or none does. Among several, whole numbers stay: they
            may say how many rows go to whom.
        count: how many rows are left out, if not all.

    Returns:
        The derived sample; None if there are no more rows than that, or they cannot be left out.
    """
    rows = next((sample.values[at].shape[0] for at in sample.active if sample.values[at].dim()), 0)
    left = 0 if count is None else rows - count
    tensors = {at: value.detach() for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)}
    shrinking = [
        at
        for at, value in tensors.items()
        if value.dim() and value.shape[0] == rows and (world.size == 1 or differentiable(value))
    ]
    fits = rows > 0 and (count is None or left > 0) and all(map(is_strided, tensors.values()))
    told = world.exchange(shrinking if fits else [])
    if not told[0] or any(places != told[0] for places in told):
        return None
    made = meant(sample, {at: tensors[at][:left] for at in shrinking})
    return made if all(world.exchange(made is not None)) else None


def lengthened(sample: SampleCall, world: World) -> SampleCall | None:
    """Return the sample with every tensor twice as long in the first dimension; None if that is impossible.

    A single row stays one beside several rows of another input. It is impossible if a tensor has no dimension, or no
    rank any rows. A rank without rows makes the same call as before. Among several ranks a number that was not there
    comes into the same tensors of all ranks, or into none; and into none that may name ranks.
    """
    tensors = {at: value.detach() for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)}
    has_rows = all(value.dim() and is_strided(value) for value in tensors.values())
    grows = has_rows and any(sample.values[at].shape[0] for at in sample.active)
    whole = [at for at, value in tensors.items() if not _has_fractions(value) and value.dtype is not torch.bool]
    beyond = max((int(tensors[at].max()) + 1 for at in whole if tensors[at].numel()), default=0)
    has_many = has_rows and any(len(tensors[at]) > 1 for at in sample.active)
    stays = [at for at, value in tensors.items() if has_many and len(value) == 1]  # one for all rows, as a filter is
    is_alone, may_name_ranks = world.size == 1, 1 < max(world.exchange(beyond)) <= world.size
    twice = {at: _twice(value, beyond, is_alone) for at, value in tensors.items() if grows and at not in stays}
    made = meant(sample, twice) if grows else None
    new = [at for at in whole if made and bool((made.values[at] >= beyond).any())]
    told = world.exchange(None if made is None else new)
    if any(places is None or places != told[0] or (places and may_name_ranks) for places in told):
        return None
    return made and replace(made, label=f"{sample.label} made longer")


def _twice(value: torch.Tensor, beyond: int, is_alone: bool) -> list[torch.Tensor]:
    """List ways to make a tensor twice as long, each keeping more of its possible meaning.

    No index in any tensor of the sample reaches ``beyond``. Among several ranks, numbers that are there already come
    first.
    """
    again = torch.cat([value, value])
    if _has_fractions(value):
        half = torch.cat([value, (to_double(value) * 0.5).to(value)])
        turned = torch.cat([value, value.flip(0)])
        return [half, turned, stretched(value, 0, 2 * len(value)), (to_double(turned) * 0.5).to(value)]
    each = value.repeat_interleave(2, 0)
    if value.dtype is torch.bool:
        return [again, each]
    ended = torch.cat([value, value[1:] + value[-1:]])
    further = [torch.cat([value, value + beyond]), torch.cat([value + beyond, value])]
    return [again, *further, each, ended] if is_alone else [again, each, *further, ended]


def _has_fractions(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def with_distinct_values(sample: SampleCall, world: World) -> SampleCall | None:
    """Return the sample with slightly changed numbers, if equal ones may hide a mistake; None if none are equal.

    Swapping two equal inputs changes nothing, and all powers agree at one.
    """
    tensors = [sample.values[at].detach() for at in sample.active]
    plain = [value for value in tensors if is_strided(value)]
    is_alike = any(one.shape == other.shape and torch.equal(one, other) for one, other in combinations(plain, 2))
    is_uniform = any(value.numel() > 1 and bool((value == value[(0,) * value.dim()]).all()) for value in plain)
    if not any(world.exchange(is_alike or is_uniform)):
        return None
    _, *beside = points_near(sample, world, tries=1)
    return replace(beside[0], label=f"{sample.label} with its numbers moved apart") if beside else None


def with_number(sample: SampleCall, at: int, gradient: torch.Tensor | None, number: float) -> SampleCall | None:
    """Return the sample with a given number at the largest gradient of one input; None if there is no such place.

    A symmetric matrix stays symmetric: it has the number in two places. A positive definite one must stay definite.
    """
    value = sample.values[at].detach()
    if gradient is None or not value.numel() or not is_strided(value) or not is_strided(gradient):
        return None
    changed = value.clone(memory_format=torch.contiguous_format)
    place = torch.zeros_like(changed, dtype=torch.bool)
    place.view(-1)[gradient.detach().abs().reshape(-1).argmax()] = True
    changed[place | place.mT if is_symmetric(value) else place] = number
    # Of sorted numbers all have to move.
    made = meant(sample, {at: [changed, value + (number - value[place])] if value.dim() == 1 else [changed]})
    return made and replace(made, label=f"{sample.label} with {number:g} in {sample.names[at]}")


def repeatable(sample: SampleCall, world: World) -> SampleCall:
    """Return a sample to derive others from, in double precision: its result is the same in every call.

    Raises:
        NotApplicable: it is not, or the spec has its own clauses for the gradient.
    """
    need(sample.subject.gradient_kind != "spec", JUDGED_BY_SPEC)
    wide = in_double(sample)
    is_same = world.try_call(draws, wide, world) is False
    need(is_same, "it draws random numbers, so no two calls are equal, or it fails for the samples themselves")
    return wide


def draws(sample: SampleCall, world: World) -> bool:
    """Whether results or gradients depend on random numbers, on any rank."""
    found = []
    for seed in (0, 1):
        run = sample.run(seed=seed)
        results, gradients = run.copies(run.cotangents(world), seed)
        found.append([*results, *gradients])
    one, other = found
    alike = len(one) == len(other) and all(
        a.shape == b.shape and _gap(a, b) == 0 for a, b in zip(one, other, strict=True)
    )
    return any(world.exchange(not alike))


def draws_by_any_seed(sample: SampleCall, world: World) -> bool:
    """Tell whether a call draws random numbers on any rank, even from its own seed: those differ in other dtypes."""
    with DrawingMode() as mode:
        world.try_call(sample.run)
    return any(world.exchange(bool(mode.found)))


def is_smooth_here(sample: SampleCall, world: World) -> bool | None:
    """Tell whether gradients hardly change over steps as long as those of the differences; None if they do change.

    Among many elements some are so close to a kink, such as a tie in a sort, that differences are meaningless.
    """
    run = sample.run()
    cotangents = run.cotangents(world)
    right = run.filled(run.gradients(cotangents))
    step = result_epsilon(world, run) ** (1 / 3)
    moved = [gradients_of(point, cotangents) for point in perturbed(sample, world, step)]
    return all(worst_error(gradients, right)[0] <= tolerances.STABLE for gradients in moved) or None


def confirmed_nearby(sample: SampleCall, world: World, look: Callable[[SampleCall], _Found | None]) -> _Found | None:
    """Return what ``look`` finds wrong at the sample, if it also finds something wrong near it, on any rank.

    At a jump, rounding may change a result, but not at every point.
    """
    points = points_near(sample, world)
    wrong = look(next(points))
    if not any(world.exchange(wrong is not None)):
        return None
    confirmed = False
    for point in points:
        # In a tuple, since to find nothing wrong is not to fail.
        looked = world.try_call(lambda point: (look(point),), point)
        if looked is None or not any(world.exchange(looked[0] is not None)):
            return None
        confirmed = True
    return wrong if confirmed else None


def worst_error(actual: Sequence[torch.Tensor], right: Sequence[torch.Tensor], scale: float = 0.0) -> tuple[float, int]:
    """Return the largest relative difference between tensors and the expected ones, and the index of that tensor."""
    largest = max([scale, *(size_of(tensor) for tensor in right)])
    gaps = [_gap(a, b, tolerances.BESIDE_LARGEST * largest) for a, b in zip(actual, right, strict=True)]
    worst = max(range(len(gaps)), key=lambda at: gaps[at])
    return gaps[worst], worst


def _gap(actual: torch.Tensor, right: torch.Tensor, least: float = 0.0) -> float:
    one, other = to_double(actual.detach()), to_double(right.detach())
    alike = (one == other) | (one.isnan() & other.isnan())
    difference = float(torch.where(alike, 0, one - other).abs().square().sum().sqrt())
    size = max(size_of(right), least)
    if difference == 0:
        return 0.0
    return difference / size if size and math.isfinite(difference) else math.inf


def size_of(tensor: torch.Tensor) -> float:
    """Return the norm of a tensor, ignoring elements that are not finite."""
    # In double precision, since a mask has no absolute value of its own.
    known = torch.nan_to_num(to_double(tensor.detach()).abs(), nan=0.0, posinf=0.0)
    return float(known.square().sum().sqrt())
