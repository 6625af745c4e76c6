"""Collective: in groups that are not the world, and in two groups at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from conformance.kit import Deviation, Subject, World, cases, clause, deadline, need, ranks, world_group
from conformance.kit.calls import Gradients
from conformance.kit.display import shown
from conformance.kit.process_groups import among, group_of, orders_groups
from conformance.kit.spmd.claims import (
    Claim,
    claims,
    in_smaller_group,
    kept_of,
    moved,
    need_judged_on,
    signature_of,
)
from conformance.kit.spmd.owed import backward, forth_and_back
from conformance.kit.spmd.smaller_worlds import (
    OF_ALL_TOGETHER,
    OF_AS_MANY,
    by_ranks_of_the_world,
    expect_alike_everywhere,
    fitting,
    made_for,
    may_be_of_all,
    may_count_ranks,
    refuses,
)
from conformance.kit.spmd.tensor_calls import jvp_of
from conformance.kit.spmd.wrong_gradients import wrong_gradient
from conformance.kit.tensors import largest_finite
from conformance.kit.typed_values import Ranks, by_types, cotangents_by_types

TAKES_NO_GROUP = "GROUP is not among its arguments: it works only in the group of all ranks"
#: Outcome of a call: the name of each tensor, and every rank's tensors, in the order of a group.
Seen = tuple[list[str], list[list[torch.Tensor | None]]]
OVERWRITTEN = "the group is stored where the next call overwrites it: store it on ctx"
IN_ONE_GROUP = "two calls in one group interfere too; see Function.forward.calls-independent"


@clause("Collective.group.subgroup")
@ranks(2, 3)
@cases(kind=["without rank 0", "with a gap", "in another order"])
@deadline(10)
def test_right_in_a_subgroup(subject: Subject, world: World, kind: str) -> None:
    """A group gives the same as the first ranks of the world would in its place, and its gradients keep the types."""
    members = _members(kind, world.size)
    need(members, "needs three ranks")
    need_judged_on(subject, len(members))
    need(kind != "in another order" or orders_groups(), "this PyTorch sorts the ranks of every group")
    alike = tuple(range(len(members)))
    for at, claim in enumerate(claims(subject, world)):
        need(claim.call.takes_a_group, TAKES_NO_GROUP)
        signature_of(claim)
        is_smaller = len(members) < world.size
        ours, theirs = (made_for(claim, at, group, world) if is_smaller else None for group in (members, alike))
        if ours is None or theirs is None:
            expect_alike_everywhere(claim, world)
            ours = theirs = fitting(claim, alike, world) if is_smaller else claim
        world.exchange(None)
        shapes = world.exchange([tuple(tensor.shape) for tensor in claim.call.tensors])
        # Otherwise the first ranks have other arguments.
        is_comparable = ours is not theirs or all(shape == shapes[0] for shape in shapes)
        expected = among(world, alike, partial(_seen, theirs))
        ours = _as_ranks_are_named(ours, members, world, expected) if is_comparable else ours
        actual = among(world, members, partial(_seen, ours))
        why = among(world, members, partial(_why_not, ours))
        if is_comparable:
            _compare(claim, members, world, actual, expected)
        known = any(world.exchange(why or "")) and wrong_gradient(claim, world)
        told = next(filter(None, world.exchange(why or "")), "")
        need(not (told and is_smaller and any(world.exchange(may_be_of_all(claim)))), OF_ALL_TOGETHER)
        if told and not known:
            places = " and ".join(f"rank {rank} as {place}" for place, rank in enumerate(members))
            raise Deviation(f"{claim.call.label} in a group that has {places}: {told}")


def _members(kind: str, size: int) -> tuple[int, ...]:
    if kind == "with a gap":
        return tuple(rank for rank in range(size) if rank != 1) if size > 2 else ()
    return tuple(range(1, size)) if kind == "without rank 0" else tuple(reversed(range(size)))


def _seen(claim: Claim, members: Ranks, group: Any) -> Seen:
    """Every member's results and gradients, and tangents if there is a jvp."""
    run = claim.call.in_group(group)
    mine = by_types(members.agreed(claim.call.samples()), signature_of(claim), members.rank)
    results = run(mine)
    kinds = in_smaller_group(claim, len(results)).results
    gradients = backward(run, mine, cotangents_by_types(kinds, results, members.rank))
    pushed = jvp_of(run, mine, claim.directions(mine, members.rank)) if claim.call.subject.defines("jvp") else []
    found = {"result": results, "the gradient of argument": gradients, "the tangent of result": pushed}
    names = [f"{what} {at}" for what, tensors in found.items() for at in range(len(tensors))]
    return names, members.tensors([tensor for tensors in found.values() for tensor in tensors])


def _why_not(claim: Claim, members: Ranks, group: Any) -> str:
    """Describe wrong gradients in a group."""
    call = claim.call.along_two()
    run, samples = call.in_group(group), members.agreed(call.samples())
    signature = in_smaller_group(claim, len(run(by_types(samples, signature_of(claim), members.rank))))
    # A kink at the sample is not a kink near it.
    for point in (samples, moved(samples)):
        (found,) = kept_of(members, run, point, len(signature.results), call.precision, [signature])
        if found.kept:
            return ""
    return call.told(found.why)


def _as_ranks_are_named(ours: Claim, members: Sequence[int], world: World, expected: Seen | None) -> Claim:
    """The claim with whole numbers as the Function reads them: they may be ranks of the world, or places in a group."""
    others = list(by_ranks_of_the_world(ours, members, world))
    for one in (ours, *others) if others else ():
        if not refuses(one, members, world):
            actual = among(world, members, partial(_seen, one))
            if not any(world.exchange(_differing(actual, expected))):
                return one
    return ours


def _differing(actual: Seen | None, expected: Seen | None) -> list[Any]:
    """What a group gave otherwise than the first ranks: known to those that were in both."""
    wrong: list[Any] = []
    if actual is not None and expected is not None:
        for place, (ours, theirs) in enumerate(zip(actual[1], expected[1], strict=True)):
            triples = zip(actual[0], ours, theirs, strict=True)
            wrong += [[name, place, shown(one), shown(other)] for name, one, other in triples if not _near(one, other)]
    return wrong[:1]


def _compare(claim: Claim, members: Sequence[int], world: World, actual: Seen | None, expected: Seen | None) -> None:
    """Hold what a group gave against what the first ranks gave."""
    for found in filter(None, world.exchange(_differing(actual, expected))):
        ((name, place, was, right),) = found
        where = f"{name} on rank {members[place]}, rank {place} of the group"
        raise Deviation(
            f"{claim.call.label} in the group of ranks {', '.join(map(str, members))}: {where}",
            was,
            f"{right}, as rank {place} has it in the group of the first ranks",
        )


def _near(actual: torch.Tensor | None, expected: torch.Tensor | None) -> bool:
    if actual is None or expected is None:
        return actual is expected
    near = 1e-6 * (1 + largest_finite(expected))
    return actual.shape == expected.shape and bool(torch.allclose(actual, expected, rtol=0, atol=near, equal_nan=True))


@clause("Collective.group.two-at-once")
@ranks(2, 3)
@deadline(10)
def test_two_groups_at_once(subject: Subject, world: World) -> None:
    """A call in the world and one in a group of this rank only give the same as one after the other."""
    need_judged_on(subject, 1)
    for claim in claims(subject, world):
        need(claim.call.takes_a_group, TAKES_NO_GROUP)
        mine = claim.held(world)
        alone = [group_of(world, (rank,)) for rank in range(world.size)][world.rank]
        run = claim.call.in_group(alone)
        need(world.try_call(run, mine) is not None, "it raises an error in a group of one rank")
        if may_count_ranks(claim, world):
            need(world.try_call(forth_and_back, run, mine) is not None, OF_AS_MANY)
        groups = [world_group(), alone]
        apart = [_begun(claim, mine, group, world)() for group in groups]
        begun = [_begun(claim, mine, group, world) for group in groups]
        together = [differentiate() for differentiate in begun]
        far = world.exchange(
            [[_near(a, b) for a, b in zip(x, y, strict=True)] for x, y in zip(together, apart, strict=True)]
        )
        for at, name in enumerate(["all ranks", "this rank alone"]):
            for place, (one, other) in enumerate(zip(together[at], apart[at], strict=True)):
                if not all(rank[at][place] for rank in far):
                    raise Deviation(
                        f"gradient {place} of {claim.call.label} in the group of {name}, where another call in another "
                        "group was made before its backward",
                        shown(one),
                        f"{shown(other)}, as without the other call",
                        _overwritten(claim, mine, apart[0], world),
                    )


def _overwritten(claim: Claim, mine: list[torch.Tensor], right: Gradients, world: World) -> str:
    """Name the cause: whether a call with other numbers in the same group does harm too. Every rank has to ask."""
    first, second = [_begun(claim, given, world_group(), world) for given in (mine, moved(mine))]
    actual = first()
    second()
    fine = all(_near(a, b) for a, b in zip(actual, right, strict=True))
    return OVERWRITTEN if all(world.exchange(fine)) else IN_ONE_GROUP


def _begun(claim: Claim, mine: Sequence[torch.Tensor], group: Any, world: World) -> Callable[[], Gradients]:
    """Make a call, and return what is to compute its gradients."""
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in mine]
    results = claim.call.in_group(group)(inputs)
    given = cotangents_by_types(in_smaller_group(claim, len(results)).results, results, world.rank)
    pairs = [(y, g) for y, g in zip(results, given, strict=True) if y.requires_grad]
    roots, grads, asked = [y for y, _ in pairs], [g for _, g in pairs], [x for x in inputs if x.requires_grad]
    return lambda: torch.autograd.grad(roots, asked, grads, allow_unused=True) if asked else ()
