"""What each rank holds of a sample, by the SPMD types that a subject claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch.utils import _pytree as pytree

from conformance.core.signatures import Signature, Type, parse
from conformance.kit.process_groups import placed, world_group
from conformance.kit.samples import Sample
from conformance.kit.spmd.values import argument
from conformance.kit.world import World


def typed(samples: Iterable[Sample], types: str | None, world: World) -> list[Sample]:
    """What this rank holds of samples that are the same on every rank, in the group of all ranks.

    Args:
        samples: the samples.
        types: the signature claimed; where there is none, every tensor differs from rank to rank.
        world: the ranks.

    Raises:
        BadTypes: the signature does not fit the tensors of a sample.
    """
    return [_held(sample, types, world) for sample in samples]


def claimed(types: str | None, arguments: int, results: int | None = None) -> Signature | None:
    """The signature that is claimed, with a letter for each tensor; results are not counted where nobody knows them.

    Raises:
        BadTypes: it does not fit the call.
    """
    if types is None:
        return None
    read = parse(types)
    return read.fitted(arguments, len(read.results) if results is None else results)


def _held(sample: Sample, types: str | None, world: World) -> Sample:
    values, structure = pytree.tree_flatten(sample.args)
    places = [at for at, value in enumerate(values) if isinstance(value, torch.Tensor)]
    signature = claimed(types, len(places))
    kinds = signature.arguments if signature else (Type.V,) * len(places)
    for number, (at, kind) in enumerate(zip(places, kinds, strict=True)):
        values[at] = argument(kind, values[at], world.rank, number)
    return replace(sample, args=placed(tuple(pytree.tree_unflatten(values, structure)), world_group()))
