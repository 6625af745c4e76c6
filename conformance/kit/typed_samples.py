"""Distribute a sample over ranks, by the SPMD types that a subject claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch.utils import _pytree as pytree

from conformance.core.signatures import Signature, Type, parse
from conformance.kit.process_groups import all_ranks, placed, world_group
from conformance.kit.samples import Sample
from conformance.kit.tensors import differentiable, differing_places, digest, fingerprint, is_strided, tensor_leaves
from conformance.kit.typed_values import argument
from conformance.kit.world import World

#: Under this name a world knows which tensors of its samples are each rank's own.
OWN = "tensors of each rank"
#: Under this one, the first rank's numbers where inputs drew others on other ranks.
FIRST = "numbers of the first rank"


def of_first_rank(samples: Sequence[Sample], world: World) -> list[Sample]:
    """The samples with the first rank's numbers in tensors that have one shape and dtype on all ranks.

    Inputs may draw others on every rank. By their type they are made to differ, or are to be the same.
    """
    if FIRST not in world.known:
        told = world.exchange([[_told(tensor) for tensor in tensor_leaves(sample.args)] for sample in samples])
        world.known[FIRST] = [
            [_first(tensor, ranks, world) for tensor, *ranks in zip(tensor_leaves(sample.args), *digests, strict=True)]
            for sample, *digests in zip(samples, *told, strict=True)
        ]
    return [_holding(sample, numbers) for sample, numbers in zip(samples, world.known[FIRST], strict=True)]


def _told(tensor: torch.Tensor) -> list[object]:
    """Return a rank's fingerprint of a tensor: shape, dtype and a hash of its numbers."""
    if not differentiable(tensor) or not is_strided(tensor):
        return []
    return [list(tensor.shape), str(tensor.dtype), digest(tensor)]


def _first(tensor: torch.Tensor, ranks: Sequence[list[object]], world: World) -> torch.Tensor | None:
    """Return the first rank's numbers, if shapes and dtypes agree and numbers do not; every rank calls this."""
    if any(told[:2] != ranks[0][:2] for told in ranks) or all(told == ranks[0] for told in ranks):
        return None
    return all_ranks(world).agreed([tensor])[0].detach()


def _holding(sample: Sample, numbers: Sequence[torch.Tensor | None]) -> Sample:
    if not any(number is not None for number in numbers):
        return sample
    values, structure = pytree.tree_flatten(sample.args)
    places = [at for at, value in enumerate(values) if isinstance(value, torch.Tensor)]
    for at, number in zip(places, numbers, strict=True):
        if number is not None:
            own = values[at]
            values[at] = torch.empty_like(own).copy_(number).detach().requires_grad_(own.requires_grad)
    return replace(sample, args=tuple(pytree.tree_unflatten(values, structure)))


def typed(samples: Iterable[Sample], types: str | None, world: World) -> list[Sample]:
    """Return this rank's arguments, from samples that are equal on every rank, in the group of all ranks.

    Whole numbers that the inputs made for each rank, such as how many rows it sends to whom, it holds as they are.
    Without a signature, every tensor differs between ranks.

    Raises:
        BadTypes: the signature does not fit the tensors of a sample.
    """
    given = list(samples)
    own = _of_each_rank(given, world)
    return [_held(sample, types, world, kept) for sample, kept in zip(given, own, strict=True)]


def _of_each_rank(samples: Sequence[Sample], world: World) -> list[frozenset[int]]:
    """Return the positions of tensors that differ between ranks, for each sample; the ranks exchange this once."""

    def found() -> list[frozenset[int]]:
        told = world.exchange([[fingerprint(tensor) for tensor in tensor_leaves(sample.args)] for sample in samples])
        return [differing_places(ranks) for ranks in zip(*told, strict=True)]

    return world.once(OWN, found)


def claimed(types: str | None, arguments: int, results: int | None = None) -> Signature | None:
    """Return the claimed signature, with a letter for each tensor; the number of results is not checked if unknown."""
    if types is None:
        return None
    read = parse(types)
    return read.fitted(arguments, len(read.results) if results is None else results)


def _held(sample: Sample, types: str | None, world: World, own: frozenset[int]) -> Sample:
    values, structure = pytree.tree_flatten(sample.args)
    places = [at for at, value in enumerate(values) if isinstance(value, torch.Tensor)]
    signature = claimed(types, len(places))
    kinds = signature.arguments if signature else (Type.V,) * len(places)
    for number, (at, kind) in enumerate(zip(places, kinds, strict=True)):
        if differentiable(values[at]) or number not in own:
            values[at] = argument(kind, values[at], world.rank, number)
    return replace(sample, args=placed(tuple(pytree.tree_unflatten(values, structure)), world_group()))
