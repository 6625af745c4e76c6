"""Find samples for a smaller group: those that its inputs make in a world of that size, shorter ones, or the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist

from conformance.core.errors import UsageError
from conformance.kit.deviations import need
from conformance.kit.process_groups import all_ranks, among
from conformance.kit.samples import Sample, samples_from
from conformance.kit.spmd.claims import Claim, signature_of
from conformance.kit.spmd.owed import forth_and_back
from conformance.kit.spmd.tensor_calls import TensorCall, with_own
from conformance.kit.stand_ins import replaced
from conformance.kit.tensors import differentiable, fingerprint
from conformance.kit.typed_values import Ranks, by_types
from conformance.kit.world import LeftAlone, World

OF_THE_WORLD = "its samples contain numbers that differ from rank to rank, such as lengths, which fit no other group"
OF_AS_MANY = "its samples contain values that may depend on the number of ranks, and it raises an error with fewer"
NEIGHBOURS = "its samples contain ranks of the world, such as those of neighbours, which fit no other group"
OF_ALL_TOGETHER = "its samples contain whole numbers that may be places among what all ranks hold together"
OTHER_TENSORS = "its inputs make another number of tensors in a world of another size"


def made_for(claim: Claim, at: int, members: Sequence[int], world: World) -> Claim | None:
    """Return the claim with the sample that its inputs make in a world of this size; None if they depend on no size.

    Every rank calls this.

    Raises:
        NotApplicable: the sample has another number of tensors there, or names other ranks of the world.
    """
    _expect_no_neighbours(claim, world)
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


def _expect_no_neighbours(claim: Claim, world: World) -> None:
    """Expect no sample to name other ranks: each rank another one, where a number that is its own place is none."""
    everyones = zip(*world.exchange(list(_whole_numbers(claim).values())), strict=False)
    ranks = list(range(world.size))
    need(not any(ranks == sorted(each) != list(each) for each in everyones), NEIGHBOURS)


def _whole_numbers(claim: Claim) -> dict[int, int]:
    """Return the whole numbers among the arguments, by place; a tensor of one element is such a number too."""
    values = {
        at: value.item()
        if isinstance(value, torch.Tensor) and value.numel() == 1 and not differentiable(value)
        else value
        for at, value in enumerate(claim.call.values)
    }
    return {at: value for at, value in values.items() if isinstance(value, int) and not isinstance(value, bool)}


def by_ranks_of_the_world(claim: Claim, members: Sequence[int], world: World) -> Iterator[Claim]:
    """Return the claim with whole numbers that may be places in a group replaced by the ranks of the world there.

    Such as a root, which most of torch.distributed takes as a rank of the world: all numbers at once, then one alone.
    Every rank calls this.
    """
    numbers = _whole_numbers(claim)
    every = world.exchange(list(numbers.values()))
    named = {at: members[number] for at, number in numbers.items() if number in range(len(members))}
    if any(each != every[0] for each in every) or all(numbers[at] == rank for at, rank in named.items()):
        return
    for places in [list(named), *([at] for at in named if len(named) > 1)]:
        values = list(claim.call.values)
        for at in places:
            own = values[at]
            values[at] = torch.full_like(own, named[at]) if isinstance(own, torch.Tensor) else named[at]
        yield replace(claim, call=replace(claim.call, values=tuple(values)))


def expect_alike_everywhere(claim: Claim, world: World) -> None:
    """Expect a sample to mean the same in a smaller group.

    Raises:
        NotApplicable: it passes numbers that are each rank's own, or one for each rank.
    """
    plain = world.exchange([value for value in claim.call.values if isinstance(value, bool | int | float | str)])
    need(all(each == plain[0] for each in plain) and not claim.call.counts, OF_THE_WORLD)
    need(not (claim.call.uneven and _is_one_for_each(claim, world)), OF_THE_WORLD)


def fitting(claim: Claim, alike: Sequence[int], world: World) -> Claim:
    """The claim with tensors that fit a smaller group: what has as many parts as ranks loses those of the missing ones.

    Raises:
        NotApplicable: the first ranks raise, and its samples may depend on the number of ranks.
    """
    if not refuses(claim, alike, world):
        return claim
    sizes = chain(*world.exchange([size for tensor in claim.call.tensors for size in tensor.shape]))
    for size in sorted({size for size in sizes if size and size % world.size == 0}):
        shorter = replace(claim, call=claim.call.cut(size, size // world.size * len(alike)))
        if not refuses(shorter, alike, world):
            return shorter
    need(not may_count_ranks(claim, world), OF_AS_MANY)
    return claim


def refuses(claim: Claim, members: Sequence[int], world: World) -> bool:
    """Whether a call in a group of some ranks, or its backward, raises on one of them. Every rank calls this.

    Raises:
        Exception: it raises on this rank, and others of the group wait for it in a collective.
    """
    return any(world.exchange(among(world, members, partial(_is_refused, claim, world))))


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


def may_be_of_all(claim: Claim) -> bool:
    """Whether whole numbers in a tensor are beyond a size on this rank, as words of a vocabulary held in parts are."""
    sizes = [size for tensor in claim.call.tensors if differentiable(tensor) for size in tensor.shape if size > 1]
    wholes = [x for x in claim.call.tensors if not differentiable(x) and x.dtype is not torch.bool]
    return bool(sizes) and any(int(x.max()) >= min(sizes) for x in wholes if x.dim() and x.numel())


def _is_one_for_each(claim: Claim, world: World) -> bool:
    """Whether a list or tuple has as many entries as there are ranks."""
    return any(len(part) == world.size for part in claim.call.containers())


def _is_refused(claim: Claim, world: World, members: Ranks, group: Any) -> bool:
    """Whether a call in a group, or its backward, raises on this rank."""
    mine = by_types(members.agreed(claim.call.samples()), signature_of(claim), members.rank)
    raised: list[Exception] = []
    try:
        forth_and_back(claim.call.in_group(group), mine)
    except Exception as error:  # whatever it refuses with
        raised.append(error)
    try:
        world.exchange([False, None], raised=bool(raised))  # a round of those in which the members exchange
    except LeftAlone:
        raise raised[0] from None
    return bool(raised)
