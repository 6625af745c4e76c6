"""Collective: values and gradients of all ranks together keep the types of a signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import torch

from conformance.core.outcomes import WAIT_IN_BACKWARD, WAIT_IN_FORWARD
from conformance.core.signatures import Type
from conformance.kit import Deviation, Subject, World, all_ranks, cases, clause, need, ranks, tolerances, world_group
from conformance.kit.display import shown, shown_apart
from conformance.kit.spmd.claims import (
    Claim,
    arguments_held,
    claims,
    in_other_shares,
    need_types,
    signature_of,
    signatures_kept,
)
from conformance.kit.spmd.joint import detectable
from conformance.kit.spmd.late import are_gradients_left_behind, are_results_left_behind, results_with_late
from conformance.kit.spmd.reasons import NOT_BY_ITS_SUM
from conformance.kit.spmd.tensor_calls import tensor_calls
from conformance.kit.spmd.wrong_gradients import need_numbers, need_right_gradient, need_sums, wrong_gradient
from conformance.kit.tensors import largest_finite, to_double

ROUNDING_ONLY = "rounding only: ranks compute it in different orders; let one rank compute it, or all in the same order"


@clause("Collective.forward.types")
@ranks(2, 3)
def test_every_result_is_a_tensor(subject: Subject, world: World) -> None:
    """A call returns tensors, as many on every rank, since the signature gives each of its results a type."""
    told = f'one for each result of "{subject.types}"' if subject.types else "as many on every rank"
    for call in tensor_calls(subject, world):
        everyones = world.exchange(len(call.in_group(world_group())(arguments_held(call, world))))
        if len(set(everyones)) > 1 or (subject.types and not all(everyones)):
            each = ", ".join(f"{number} on rank {rank}" for rank, number in enumerate(everyones))
            found = f"{everyones[0]} on every rank" if len(set(everyones)) == 1 else each
            raise Deviation(f"how many tensors a call with {call.label} returns", found, told)
    if not subject.types:
        need_types(subject, world)


@clause("Collective.forward.types")
@ranks(2, 3)
def test_alike_results_are_alike(subject: Subject, world: World) -> None:
    """Every result of type R or I is the same on all ranks, bit for bit."""
    need_types(subject, world)
    for claim in claims(subject, world):
        _expect_alike(claim, "", world)
        _expect_alike(_read_at_once(claim, world), f", read at once, rank {world.size - 1} being late", world)


def _expect_alike(claim: Claim, when: str, world: World) -> None:
    """Assert that every result of type R or I is the same on all ranks, as a claim's look has them."""
    found = claim.ranks_that_differ()
    if found:
        result, (one, other) = found
        here, there = claim.observed.results[other][result], claim.observed.results[one][result]
        actual, expected = shown_apart(here, there)
        is_alike = here is not None and there is not None and here.shape == there.shape
        is_rounded = is_alike and _is_rounding(_wide(here), _wide(there))
        signature = signature_of(claim)
        raise Deviation(
            f"result {result} of {claim.call.label}, of type {signature.results[result].value} in {signature}, "
            f"on rank {other} of {world.size}{when}",
            actual,
            f"{expected}, as on rank {one}, bit for bit",
            ROUNDING_ONLY if is_rounded else _if_not_waited_for(claim, world) or signatures_kept(claim, world),
        )


def _read_at_once(claim: Claim, world: World) -> Claim:
    """The claim, looked at with the results as they are when a call returns to which the last rank came late."""
    _, _, at_once = results_with_late(claim, world.size - 1, world)
    return replace(claim, look=replace(claim.observed, results=all_ranks(world).tensors(at_once)))


@clause("Collective.forward.types")
@ranks(2, 3)
def test_shares_count_by_their_sum(subject: Subject, world: World) -> None:
    """Moving a part of an argument of type P from one rank to another changes nothing."""
    need_types(subject, world)
    tried = False
    for claim in claims(subject, world):
        others = in_other_shares(claim, world)
        if others is not None:
            tried = True
            broken = _told_apart(claim, others)
            if broken:
                raise Deviation(*broken, likely=_if_not_waited_for(claim, world))
    need(tried, "no argument has type P")


def _if_not_waited_for(claim: Claim, world: World) -> str:
    """Return the advice for results that were only not ready yet; empty if that is not the cause."""
    return WAIT_IN_FORWARD if are_results_left_behind(claim, world) else ""


def _is_rounding(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors are near each other, next to their largest number: memory never written may hold tiny ones."""
    near = 1e-6 * largest_finite(torch.maximum(one.abs(), other.abs()))
    return bool(torch.allclose(one, other, rtol=1e-5, atol=near, equal_nan=True))


def _told_apart(claim: Claim, after: Sequence[Sequence[object]]) -> tuple[str, str, str] | None:
    """Compare results between two distributions of the same sums: name, actual and expected."""
    for result, kind in enumerate(signature_of(claim).results):
        one, other = ([_wide(rank[result]) for rank in ranks] for ranks in (claim.observed.results, after))
        if kind is Type.P:
            one, other = [torch.stack(one).sum(0)], [torch.stack(other).sum(0)]
        for rank, (expected, actual) in enumerate(zip(one, other, strict=True)):
            largest = largest_finite(expected)
            where = "added up over all ranks" if kind is Type.P else f"on rank {rank}"
            # Many Functions add up in single precision, whatever the dtype of their inputs.
            sent = tolerances.AS_IN_DOUBLE * _precision_of(expected, actual)
            near = max(tolerances.SAME_ROUNDINGS * max(claim.call.precision, tolerances.SINGLE), sent) * (1 + largest)
            if not torch.allclose(actual, expected, rtol=0, atol=near, equal_nan=True):
                return (
                    f"result {result} of {claim.call.label} {where}, after the ranks' shares of an argument of type P "
                    "were changed without changing their sum",
                    shown(actual),
                    f"{shown(expected)}, as before",
                )
    return None


def _precision_of(*results: torch.Tensor) -> float:
    """The machine epsilon of the half precision that holds results as they are; zero if neither does."""
    every = torch.cat([result.reshape(-1) for result in results])
    kinds = ((torch.bfloat16, tolerances.BFLOAT), (torch.float16, tolerances.HALF))
    return next((eps for dtype, eps in kinds if torch.equal(every.to(dtype).to(every.dtype), every)), 0.0)


def _wide(value: object) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return to_double(value)


@clause("Collective.backward.gradient")
@ranks(2, 3)
@cases(dtype=["float64", "float32", "bfloat16"])
def test_gradients_are_those_owed(subject: Subject, world: World, dtype: str) -> str:
    """Every gradient is the one that its types ask for, by differences over all ranks or by a finer oracle."""
    said = []
    for at, claim in enumerate(claims(subject, world, dtype)):
        if claim.signature is None:
            raise Deviation(f"signatures that {claim.call.label} keeps", "none", "at least one; give it with types=")
        need(not claim.ranks_that_differ(), "results do not have their types; see Collective.forward.types")
        need_numbers(claim)
        why = wrong_gradient(claim, world)
        need_sums(why)
        if why:
            _accuse(*(_in_double(claim, claims(subject, world)[at], world) or (claim, why)), world)
        said.append(detectable(claim, world))
    return next(filter(None, said), "")


def _in_double(claim: Claim, exact: Claim, world: World) -> tuple[Claim, str] | None:
    """Judge the same claim in double precision and describe the error there: low precision fits too many claims."""
    if claim.call.dtype == exact.call.dtype or claim.signature != exact.signature or exact.ranks_that_differ():
        return None
    why = wrong_gradient(exact, world)
    return (exact, why) if why and NOT_BY_ITS_SUM not in why else None


def _accuse(claim: Claim, why: str, world: World) -> NoReturn:
    declared = claim.call.is_declared  # of another signature the formula says nothing
    behind = are_gradients_left_behind(claim, world)
    likely = WAIT_IN_BACKWARD if behind else "" if declared else signatures_kept(claim, world)
    by = ", by the formula that is declared," if declared else ""
    by = ", declared for spmd_types," if claim.is_declared else by
    kind = claim.call.dtype
    dtype = "" if kind in (None, torch.float64) else f" in {str(kind).removeprefix('torch.')}"
    raise Deviation(f"{claim.signature}{by} is not kept with {claim.call.label}{dtype}: {why}", likely=likely)


@clause("Collective.backward.types")
@ranks(2, 3)
def test_alike_gradients_are_alike(subject: Subject, world: World) -> None:
    """The gradient of every argument of type I or P is the same on all ranks, bit for bit."""
    tried = False
    for claim in claims(subject, world):
        signature, look = signature_of(claim), claim.observed
        alike = [at for at, kind in enumerate(signature.arguments) if kind in (Type.I, Type.P)]
        if not alike:
            continue
        need_right_gradient(claim, world)
        for result in look.differentiable:
            everyones = look.gradients[result, signature.results[result].loss_differs]
            for at in alike:
                if claim.call.tensors[at].requires_grad:
                    tried = True
                    what = f"argument {at} of {claim.call.label}"
                    _expect_alike_gradients([rank[at] for rank in everyones], what, signature.arguments[at])
    need(tried, "no argument has type I or P")


def _expect_alike_gradients(gradients: Sequence[torch.Tensor | None], what: str, kind: Type) -> None:
    first = gradients[0]
    for rank, gradient in enumerate(gradients):
        same = gradient is first or (
            gradient is not None and first is not None and bool(((gradient == first) | (gradient != gradient)).all())
        )
        if not same:
            raise Deviation(
                f"the gradient of {what}, of type {kind.value}, on rank {rank}",
                shown(gradient),
                f"{shown(first)}, as on rank 0, bit for bit",
            )
