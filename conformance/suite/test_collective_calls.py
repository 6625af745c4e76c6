"""Collective: which collectives are called, when they are done, and that one rank is enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch

from conformance.core.outcomes import WAIT_IN_BACKWARD, WAIT_IN_FORWARD
from conformance.core.signatures import Signature
from conformance.core.worlds import is_simulated
from conformance.kit import (
    Deviation,
    Subject,
    World,
    cases,
    clause,
    deadline,
    differentiable,
    expect,
    need,
    ranks,
    share_memory,
    world_group,
)
from conformance.kit.afterwards import NEEDS_OTHERS
from conformance.kit.observation.collectives import Started, changed_under_way, counted_in_groups
from conformance.kit.spmd.claims import Claim, claims, need_judged_on, need_types, signature_of
from conformance.kit.spmd.late import are_near, copies, gradients_with_late, results_with_late, settle
from conformance.kit.spmd.observation import Observation
from conformance.kit.spmd.owed import Cotangents, backward
from conformance.kit.spmd.smaller_worlds import OF_ALL_TOGETHER, may_be_of_all
from conformance.kit.spmd.tensor_calls import TensorCall
from conformance.kit.spmd.wrong_gradients import need_numbers, wrong_gradient
from conformance.kit.typed_values import cotangent

Data = Callable[[torch.Tensor], torch.Tensor]
#: A tensor of this rank, and what it should be; and the words for that, by the name of such tensors.
WithRight = tuple[torch.Tensor | None, torch.Tensor | None]
RIGHT = {"result": "its final value", "the gradient of argument": "the value if no rank is late"}
#: The expected gradient on one rank; if it is wrong among several too, that is reported once.
AS_AMONG_SEVERAL = "; see Collective.backward.gradient"
ENDED = "on simulated ranks a collective ends when it starts"
#: A send on one rank is a receive on another: only what all ranks call together can be compared.
POINT_TO_POINT = re.compile(r"send|recv")
#: Data that a Function might decide by, as arguments or as the gradients that come in.
DATA: dict[str, Data] = {
    "zeros": torch.zeros_like,
    "negated": torch.neg,
    "large numbers": lambda x: 1e4 * x,
    "not a number": lambda x: torch.full_like(x, torch.nan),
}


@clause("Collective.forward.same-calls")
@ranks(2, 3)
@cases(data=["zeros", "negated", "large numbers", "not a number"])
@deadline(10)
def test_data_decide_no_collective(subject: Subject, world: World, data: str) -> None:
    """With unusual numbers and gradients, on one rank or on all by the types, every rank calls the same collectives."""
    for claim in claims(subject, world):
        signature, look = signature_of(claim), claim.observed
        mine = claim.held(world)
        exact = claim.call.as_called(mine)
        for at, kind in enumerate(signature.arguments):
            if differentiable(exact[at]) and (world.rank == 0 or not kind.differs):
                exact[at] = DATA[data](exact[at])
            exact[at].requires_grad_(mine[at].requires_grad)

        def run(tensors: Sequence[torch.Tensor], call: TensorCall = claim.call) -> list[torch.Tensor]:
            return call.called([tensor.clone() for tensor in tensors], world_group())

        with counted_in_groups() as calls:
            results = run(exact)
            given = _incoming(signature, look, results, world.rank, DATA[data])
            backward(run, exact, given)
        everyones = world.exchange([asdict(call) for call in calls if not POINT_TO_POINT.search(call.name)])
        told = [[Started(call["name"], tuple(call["ranks"])) for call in each] for each in everyones]
        _expect_same_calls(told, claim, data)


def _expect_same_calls(everyones: Sequence[Sequence[Started]], claim: Claim, data: str) -> None:
    """Expect the ranks of each group to call the same in it: others may have nothing to do there."""
    for members in dict.fromkeys(call.ranks for called in everyones for call in called):
        names = {rank: [call.name for call in everyones[rank] if call.ranks == members] for rank in members}
        named = ", ".join(map(str, members))
        first, among = members[0], "" if len(members) == len(everyones) else f" among ranks {named}"
        for rank, called in names.items():
            expect.that(
                called == names[first],
                f"collectives that rank {rank} of {len(everyones)} calls{among} for {claim.call.label}, "
                f"where rank 0 has {data}",
                ", ".join(called) or "none",
                f"{', '.join(names[first]) or 'none'}, as rank {first}",
            )


def _incoming(
    signature: Signature, look: Observation, results: Sequence[torch.Tensor], rank: int, data: Data
) -> Cotangents:
    """The gradients that come in on a rank: unusual ones on the first, or on all if ranks share the loss."""
    found: list[torch.Tensor | None] = [None] * len(results)
    for at in look.differentiable:
        kind = signature.results[at]
        usual = cotangent(kind, results[at], rank, at)
        found[at] = data(usual) if rank == 0 or not kind.loss_differs else usual
    return found


@clause("Collective.forward.complete")
@ranks(2, 3)
@deadline(10)
def test_results_can_be_read_at_once(subject: Subject, world: World) -> None:
    """If one rank is late, the others wait for it before they return; afterwards arguments may be overwritten."""
    for claim in claims(subject, world):
        _, results, _ = results_with_late(claim, None, world)
        settle(world)
        expected = copies(results)
        for late in {0, world.size - 1}:
            given, results, at_once = results_with_late(claim, late, world)
            for x in given:
                x.detach().zero_()
            settle(world)
            in_the_end = [right if _shares(y, given) else y for y, right in zip(results, expected, strict=True)]
            settled = all(world.exchange(are_near(in_the_end, expected)))
            seen = list(zip(at_once, expected, strict=True))
            _expect_same(claim, "result", seen, "read at once", WAIT_IN_FORWARD if settled else "", world)
            kept = [y if _shares(y, given) else y.detach().clone() for y in results]
            pairs = [(y, right) for y, right in zip(kept, expected, strict=True) if not _shares(y, given)]
            when = "read after the arguments were overwritten"
            _expect_same(claim, "result", pairs, when, "the memory of the arguments is still in use", world)


def _shares(result: torch.Tensor, given: Sequence[torch.Tensor]) -> bool:
    return any(share_memory(result, x) for x in given)


def _expect_same(claim: Claim, name: str, pairs: Sequence[WithRight], when: str, likely: str, world: World) -> None:
    alike = world.exchange([are_near([one], [right]) for one, right in pairs])
    for rank, fine in enumerate(alike):
        if not all(fine):
            at = fine.index(False)
            what = f"{name} {at} of {claim.call.label} on rank {rank} of {world.size}, {when}"
            actual, right = map(expect.shown, pairs[at]) if rank == world.rank else ("something else", RIGHT[name])
            raise Deviation(what, actual, right, likely)


@clause("Collective.forward.types")
@ranks(2)
def test_what_is_under_way_in_forward_is_left_alone(subject: Subject, world: World) -> None:
    """No tensor passed to a collective is changed before its wait()."""
    need(not is_simulated(world.backend), ENDED)
    need_types(subject, world)
    for claim in claims(subject, world):
        with changed_under_way() as changed:
            results_with_late(claim, None, world)
        _expect_left_alone(changed, f"forward of {claim.call.label}", world)


@clause("Collective.backward.gradient")
@ranks(2)
def test_what_is_under_way_in_backward_is_left_alone(subject: Subject, world: World) -> None:
    """In backward, no tensor passed to a collective is changed before its wait()."""
    need(not is_simulated(world.backend), ENDED)
    for claim in claims(subject, world):
        signature_of(claim)
        with changed_under_way() as changed:
            results_with_late(claim, None, world)
        need(not any(world.exchange(bool(changed))), "forward already does; see Collective.forward.types")
        with changed_under_way() as changed:
            gradients_with_late(claim, None, world)
        _expect_left_alone(changed, f"backward of {claim.call.label}", world)


def _expect_left_alone(changed: Sequence[str], where: str, world: World) -> None:
    found: list[str] = next(filter(None, world.exchange(list(changed))), [])
    if found:
        raise Deviation(
            f"a tensor passed to {found[0]}, in the {where}",
            "changed between the start of the collective and its wait()",
            "unchanged until then: the collective may be reading it or writing to it",
        )


@clause("Collective.backward.gradient")
@ranks(2, 3)
@deadline(10)
def test_gradients_can_be_read_at_once(subject: Subject, world: World) -> None:
    """If one rank is late in backward, the others wait for it before they return their gradients."""
    tried = False
    for claim in claims(subject, world):
        _, expected = gradients_with_late(claim, None, world)
        tried |= any(world.exchange(any(g is not None for g in expected)))
        for late in (0, world.size - 1):
            at_once, in_the_end = gradients_with_late(claim, late, world)
            settled = all(world.exchange(are_near(in_the_end, expected)))
            gradients, when = zip(at_once, expected, strict=True), f"read at once, rank {late} being late in backward"
            likely = WAIT_IN_BACKWARD if settled else ""
            _expect_same(claim, "the gradient of argument", list(gradients), when, likely, world)
    need(tried, "no argument has a gradient")


@clause("Collective.forward.one-rank")
@ranks(1)
@deadline(10)
def test_one_rank_is_a_group(subject: Subject, world: World) -> None:
    """In a group of one rank it returns, and its gradient is the derivative."""
    need_judged_on(subject, 1)
    try:
        found = claims(subject, world)
    except Exception as error:
        error.add_note(NEEDS_OTHERS)
        raise
    for claim in found:
        if claim.signature is None:
            raise Deviation(f"signatures that {claim.call.label} keeps on one rank", "none", f"all{AS_AMONG_SEVERAL}")
        need_numbers(claim)
        why = wrong_gradient(claim, world)
        need(not (why and may_be_of_all(claim)), OF_ALL_TOGETHER)
        expect.that(not why, f"{claim.call.label} in a group of one rank: {why}{AS_AMONG_SEVERAL}")
