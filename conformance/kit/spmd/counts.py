"""Let ranks keep different numbers of tokens, as batches do, where no size depends on how many are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.core.signatures import Signature, Type
from conformance.kit.modes import CollectivesMode
from conformance.kit.process_groups import all_ranks, world_group
from conformance.kit.spmd.owed import forth_and_back
from conformance.kit.spmd.tensor_calls import TensorCall
from conformance.kit.tensors import differentiable, is_strided
from conformance.kit.traits import missing_traits
from conformance.kit.typed_samples import claimed
from conformance.kit.typed_values import by_types, one_fewer
from conformance.kit.world import World


def with_uneven_counts(call: TensorCall, world: World) -> TensorCall:
    """Return the call with one element fewer kept on every other rank, in masks and labels of type V.

    Every rank calls this. It remains as it is where a collective or a result has another size when all ranks keep one
    fewer: among ranks that keep different numbers, sizes would not match.
    """
    signature = claimed(call.subject.types, len(call.tensors))
    if signature is None or world.size == 1:
        return call
    found = world.once(("counts", call.label), lambda: _unsized(call, signature, world))
    fewer = " and ".join(f"argument {at}" for at in found)
    label = f"{call.label} (odd ranks keep one fewer in {fewer})" if found else call.label
    return replace(call, label=label, fewer=frozenset(found))


def _unsized(call: TensorCall, signature: Signature, world: World) -> list[int]:
    """The tensors of which other ranks may keep other numbers."""
    mine = by_types(all_ranks(world).agreed(call.samples()), signature, world.rank)
    varying = [at for at, kind in enumerate(signature.arguments) if kind is Type.V and at not in call.uneven]
    told = world.exchange([at for at in varying if _can_be_fewer(call.tensors[at], mine[at])])
    places = [at for at in varying if all(at in each for each in told)]
    usual = _sizes(call, mine, world) if places else None
    if usual is None:
        return []

    def are_usual(other: TensorCall, held: Sequence[torch.Tensor]) -> bool:
        return all(world.exchange(_sizes(other, held, world) == usual))

    found = [at for at in places if are_usual(call, [*mine[:at], one_fewer(mine[at]), *mine[at + 1 :]])]
    return found if found and are_usual(replace(call, fewer=frozenset(found)), mine) else []


def _can_be_fewer(sample: torch.Tensor, own: torch.Tensor) -> bool:
    if differentiable(sample) or not is_strided(sample):
        return False
    other = one_fewer(own)
    return not torch.equal(other, own) and not missing_traits(sample, other)


def _sizes(call: TensorCall, mine: Sequence[torch.Tensor], world: World) -> list[object] | None:
    """Return the sizes that a call has on this rank, of collectives and results; None on every rank if it raises."""
    run = call.in_group(world_group())
    sizes: list[object] = []

    def noted(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        results = run(tensors)
        sizes.extend(tuple(y.shape) for y in results)
        return results

    with CollectivesMode(lambda name, args: sizes.append((name, _sizes_among(args)))):
        return None if world.try_call(forth_and_back, noted, mine) is None else sizes


def _sizes_among(args: tuple[Any, ...]) -> list[object]:
    """Return shapes of tensors among the arguments of an operator, and whole numbers, such as how it splits them."""
    leaves = pytree.tree_leaves(args)
    return [tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in leaves if isinstance(x, torch.Tensor | int)]
