"""Places near a sample: directions to step along, and samples whose numbers are moved a little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from conformance.kit.calls import SampleCall
from conformance.kit.tensors import is_arrangeable, is_strided, stored_values, to_double
from conformance.kit.traits import symmetric_like
from conformance.kit.world import World


def points_near(sample: SampleCall, world: World, tries: int = 2) -> Iterator[SampleCall]:
    """Yield the sample, then a few points close to it that forward accepts: a kink at one is not at the others."""
    yield sample
    for attempt in range(tries):
        drawn = drawn_direction(sample, world, "near", attempt)
        moves = {at: symmetric_like(sample.values[at].detach(), move) for at, move in drawn.items()}
        point = moved_along(sample, moves, 0.02)
        if world.try_call(point.run):
            yield point


def perturbed(
    sample: SampleCall, world: World, eps: float, tries: int = 2, constants: bool = False
) -> Iterator[SampleCall]:
    """Perturb the sample a few times, by as much as rounding to a precision would.

    With ``constants``, also those tensors that need no gradient, each element next to its own size: zeros stay zeros.
    """
    for number in range(tries):
        moved = {}
        for at, value in enumerate(sample.values):
            if at in sample.active:
                plain = value.detach()
                moved[at] = plain + 4 * eps * random_direction(world, plain, "shaken", number, at)
            elif constants and is_arrangeable(value):
                moved[at] = value * (
                    1 + 4 * eps * world.tensor(world.rank, tuple(value.shape), value.dtype, "shaken", number, at)
                )
        yield sample.having(moved)


def directions(world: World, value: torch.Tensor) -> Iterator[torch.Tensor]:
    """Return two random directions as long as the value, then one along a single element, whose error may be visible
    only there."""
    for index in range(2):
        yield random_direction(world, value, index)
    if value.numel() > 1 and is_strided(value):
        single = torch.zeros(tuple(value.shape), dtype=value.dtype, device=value.device)
        single.view(-1)[value.numel() // 2] = rms_size(value)
        yield single


def random_direction(world: World, value: torch.Tensor, *key: object) -> torch.Tensor:
    """Draw a random direction as long as the value; for a sparse tensor it is zero where the tensor is zero."""
    size = rms_size(value)
    if is_strided(value):
        return world.tensor(world.rank, tuple(value.shape), value.dtype, "direction", *key) * size
    moved = value.detach().clone()
    stored = stored_values(moved)
    stored.copy_(world.tensor(world.rank, tuple(stored.shape), value.dtype, "direction", *key) * size)
    return moved


def drawn_direction(sample: SampleCall, world: World, *key: object) -> dict[int, torch.Tensor]:
    """Draw a random direction for each differentiated input."""
    return {at: random_direction(world, sample.values[at].detach(), *key, at) for at in sample.active}


def moved_along(sample: SampleCall, direction: Mapping[int, torch.Tensor], step: float) -> SampleCall:
    """Return the sample a step away."""
    return sample.having({at: sample.values[at].detach() + step * along for at, along in direction.items()})


def beside_special(value: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """Return the part of a direction that keeps zeros and moves equal elements alike, so that it crosses no kink there.

    >>> beside_special(torch.tensor([0.0, 5.0, 5.0, 1.0]), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([0., 2., 2., 4.])
    """
    along = torch.where(value == 0, 0, direction)
    if value.is_complex():
        return along
    _, group = value.reshape(-1).unique(return_inverse=True)
    order = torch.arange(group.numel(), device=group.device)
    first = torch.full_like(group, group.numel()).scatter_reduce(0, group, order, "amin")
    return along.reshape(-1)[first[group]].reshape(along.shape)


def rms_size(value: torch.Tensor) -> float:
    """Return the typical size of a tensor's elements; 1 if they are all zero or not finite."""
    stored = stored_values(value.detach())
    size = float(to_double(stored).abs().square().mean().sqrt()) if stored.numel() else 1.0
    return size if 1e-30 < size < 1e30 else 1.0
