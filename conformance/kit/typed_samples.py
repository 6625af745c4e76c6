"""What each rank holds of a sample, by the SPMD types that a subject claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch.utils import _pytree as pytree

from conformance.core.signatures import Signature, Type, parse
from conformance.kit.process_groups import placed, world_group
from conformance.kit.samples import Sample
from conformance.kit.tensors import differentiable, that_differ, told_apart
from conformance.kit.typed_values import argument
from conformance.kit.world import World

#: Under this name a world knows which tensors of its samples are each rank's own.
OWN = "tensors of each rank"


def typed(samples: Iterable[Sample], types: str | None, world: World) -> list[Sample]:
    """What this rank holds of samples that are the same on every rank, in the group of all ranks.

    Whole numbers that the inputs made for each rank, such as how many rows it sends to whom, it holds as they are.

    Args:
        samples: the samples.
        types: the signature claimed; where there is none, every tensor differs from rank to rank.
        world: the ranks.

    Raises:
        BadTypes: the signature does not fit the tensors of a sample.
    """
    given = list(samples)
    own = _of_each_rank(given, world)
    return [_held(sample, types, world, kept) for sample, kept in zip(given, own, strict=True)]


def _of_each_rank(samples: Sequence[Sample], world: World) -> list[frozenset[int]]:
    """Which tensors of each sample, by their places, are others on another rank. The ranks tell each other once."""
    if OWN not in world.known:
        told = world.exchange([[told_apart(tensor) for tensor in _tensors(sample)] for sample in samples])
        world.known[OWN] = [that_differ(ranks) for ranks in zip(*told, strict=True)]
    found: list[frozenset[int]] = world.known[OWN]
    return found


def _tensors(sample: Sample) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(sample.args) if isinstance(leaf, torch.Tensor)]


def claimed(types: str | None, arguments: int, results: int | None = None) -> Signature | None:
    """The signature that is claimed, with a letter for each tensor; results are not counted where nobody knows them.

    Raises:
        BadTypes: it does not fit the call.
    """
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
