"""Find samples for a smaller group: those that its inputs make in a world of that size, shorter ones, or the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from conformance.core.errors import UsageError
from conformance.kit.deviations import need
from conformance.kit.process_groups import all_ranks, among
from conformance.kit.samples import Sample, samples_from
from conformance.kit.spmd.claims import Claim, by_types, signature_of
from conformance.kit.spmd.owed import GroupCall, backward
from conformance.kit.spmd.tensor_calls import TensorCall, with_own
from conformance.kit.stand_ins import replaced
from conformance.kit.tensors import differentiable, fingerprint
from conformance.kit.typed_values import Ranks
from conformance.kit.world import World

OF_THE_WORLD = "its samples contain numbers that differ from rank to rank, such as lengths, which fit no other group"
OF_AS_MANY = "its samples contain values that may depend on the number of ranks, and it raises an error with fewer"
OTHER_TENSORS = "its inputs make another number of tensors in a world of another size"


def made_for(claim: Claim, at: int, members: Sequence[int], world: World) -> Claim | None:
    """Return the claim with the sample that its inputs make in a world of this size; None if they depend on no size.

    Args:
        claim: what is claimed of a sample.
        at: which sample.
        members: the ranks of the smaller group, in order.
        world: the ranks; each of them asks.

    Raises:
        NotApplicable: the sample has another number of tensors there.
    """
    place = members.index(world.rank) if world.rank in members else 0
    sample = _sample_in_world(claim, at, place, len(members), world.device)
    if not all(world.exchange(sample is not None)):
        return None
    assert sample is not None
    call = TensorCall.of(claim.call.subject, sample).converted(claim.call.dtype)
    told = world.exchange([fingerprint(tensor) for tensor in call.tensors])
    need(all(len(each) == len(claim.call.tensors) for each in told), OTHER_TENSORS)
    return replace(claim, call=_with_numbers_of_first(with_own(call, [told[member] for member in members]), world))


def _with_numbers_of_first(call: TensorCall, world: World) -> TensorCall:
    """The call with the first rank's numbers in what has one shape everywhere: inputs may draw others on every rank.

    Rank 0 stands for the first rank of any smaller group.
    """
    first, values = all_ranks(world).agreed(call.tensors), list(call.values)
    for number, at in enumerate(call.places):
        if number not in call.uneven and differentiable(values[at]):
            values[at] = first[number]
    return replace(call, values=tuple(values))


def _sample_in_world(claim: Claim, at: int, rank: int, size: int, device: str) -> Sample | None:
    """Return a sample as the inputs make it on a rank of another world; None if they do not depend on its size."""
    inputs = claim.call.subject.inputs
    if not callable(inputs):
        return None
    with _as_in_world(rank, size) as asked:
        try:
            found = samples_from(inputs, claim.call.subject.label, 0, device)
        except UsageError:
            return None
    return found[at] if asked and at < len(found) else None


@contextmanager
def _as_in_world(rank: int, size: int) -> Iterator[list[int]]:
    """Make every process group report another rank and size; collect the sizes that were read."""
    asked: list[int] = []

    def told(group: dist.ProcessGroup) -> int:
        asked.append(size)
        return size

    with replaced(dist.ProcessGroup, "rank", lambda group: rank), replaced(dist.ProcessGroup, "size", told):
        yield asked


def expect_alike_everywhere(claim: Claim, world: World) -> None:
    """Expect a sample to mean the same in a smaller group.

    Raises:
        NotApplicable: it passes numbers that are each rank's own, or one for each rank.
    """
    plain = world.exchange([value for value in claim.call.values if isinstance(value, bool | int | float | str)])
    need(all(each == plain[0] for each in plain) and not claim.call.counts, OF_THE_WORLD)
    need(not (claim.call.uneven and _is_one_for_each(claim, world)), OF_THE_WORLD)


def fitting(claim: Claim, alike: Sequence[int], world: World) -> Claim:
    """The claim with tensors that fit a smaller group: what is as long as the world has ranks may be one for each.

    Raises:
        NotApplicable: the first ranks raise, and its samples may depend on the number of ranks.
    """
    shorter = replace(claim, call=claim.call.cut(world.size, len(alike)))
    if not _refuses(claim, alike, world):
        return claim
    if not _refuses(shorter, alike, world):
        return shorter
    need(not may_count_ranks(claim, world), OF_AS_MANY)
    return claim


def _refuses(claim: Claim, members: Sequence[int], world: World) -> bool:
    """Whether a call in a group of some ranks, or its backward, raises on one of them. Every rank calls this."""
    return any(world.exchange(among(world, members, partial(_is_refused, claim))))


def may_count_ranks(claim: Claim, world: World) -> bool:
    """Whether an argument may state the number of ranks, or how much they hold together, on any of them.

    A whole number is as many as there are ranks, or several times as many, such as parts, rows or columns in all; or
    what all ranks hold, which padding may make longer by less than one for each rank. A shape counts by its product
    too. A list or tuple has an entry for each rank.
    """
    numbers = [value for value in claim.call.values if isinstance(value, int) and not isinstance(value, bool)]
    counts = [number for number in (*numbers, math.prod(numbers)) if number > 1]
    sizes = [[tensor.numel(), *tensor.shape] for tensor in claim.call.tensors]
    everyones = zip(*world.exchange([size for row in sizes for size in row]), strict=False)
    totals = [sum(each) for each in everyones]
    own = _is_one_for_each(claim, world) or any(
        count % world.size == 0 or any(total - world.size < count <= total for total in totals) for count in counts
    )
    return any(world.exchange(own))  # numbers may differ between ranks, which go on together


def _is_one_for_each(claim: Claim, world: World) -> bool:
    """Whether a list or tuple has as many entries as there are ranks."""
    return any(len(part) == world.size for part in claim.call.containers())


def _is_refused(claim: Claim, members: Ranks, group: Any) -> bool:
    """Whether a call in a group, or its backward, raises on this rank."""
    mine = by_types(members.agreed(claim.call.samples()), signature_of(claim), members.rank)
    try:
        forth_and_back(claim.call.in_group(group), mine)
    except Exception:  # whatever it refuses with
        return True
    return False


def forth_and_back(run: GroupCall, mine: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Gradients of a call, each result with ones for its cotangent."""
    return backward(run, mine, [torch.ones_like(y) if differentiable(y) else None for y in run(mine)])
