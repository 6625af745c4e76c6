"""Collective: how arguments and incoming gradients lie in memory makes no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

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
    same_values,
    world_group,
)
from conformance.kit.modes import DrawingMode
from conformance.kit.spmd.claims import Claim, claims, signature_of
from conformance.kit.spmd.owed import backward
from conformance.kit.tensors import largest_finite, shares_elements
from conformance.kit.typed_values import cotangent
from conformance.kit.variations.layouts import GRADIENT_LAYOUTS, LAYOUTS, lies_otherwise
from conformance.kit.world import LeftAlone

EXPANDED = "expanded from one number"
UNASKED = "no argument could have another layout, it draws random numbers, or writes to elements that share memory"
AS_CONTIGUOUS = ", as where they are contiguous"
#: Outcome of a call: the results, or the error.
Ended = list[torch.Tensor] | Exception
_Tensors = Sequence[torch.Tensor | None]


@clause("Collective.backward.any-layout")
@ranks(2, 3)
@cases(
    layout=[
        "transposed in memory",
        "sliced out of wider memory",
        "cut out of longer memory",
        "expanded from one number",
    ],
    who=["all", "one"],
)
@deadline(10)
def test_gradients_of_any_layout(subject: Subject, world: World, layout: str, who: str) -> None:
    """Gradients laid out otherwise, on all ranks or on one, give what the same gradients give when contiguous."""
    tried = False
    for claim in claims(subject, world):
        mine, given = _cotangents(claim, world, layout)
        changed = any(g is not None and lies_otherwise(GRADIENT_LAYOUTS[layout](g), g) for g in given)
        if not any(world.exchange(changed)):
            continue
        tried, run = True, claim.call.in_group(world_group())
        expected = backward(run, mine, given)
        for odd in _some(claim.observed.differentiable):
            strange = [GRADIENT_LAYOUTS[layout](g) if g is not None and at in odd else g for at, g in enumerate(given)]
            actual = backward(run, mine, strange if who == "all" or world.rank == 0 else given)
            where = f"where those that come in are {layout} on {'all ranks' if who == 'all' else 'rank 0'}"
            of = f"of {claim.call.label}, {where}"
            if not _expect_same("the gradient of argument", of, actual, expected, world, AS_CONTIGUOUS):
                return  # the ranks that it is wrong on say so
    need(tried, "no result has a gradient that could have another layout")


def _some(places: Sequence[int]) -> Iterator[Sequence[int]]:
    """Return the places without the first, and without the last: what is read off one of them is wrong for others."""
    yield places[1:] or places
    if places[1:]:
        yield places[:-1]


def _cotangents(claim: Claim, world: World, layout: str) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """Return this rank's tensors, and a contiguous gradient for each result that has one."""
    signature, mine = signature_of(claim), claim.held(world)
    results = claim.call.in_group(world_group())(mine)
    given: list[torch.Tensor | None] = [None] * len(results)
    for at in claim.observed.differentiable:
        drawn = cotangent(signature.results[at], results[at], world.rank, at)
        given[at] = GRADIENT_LAYOUTS[layout](drawn).clone() if layout == EXPANDED else drawn
    return mine, given


def _far(actual: torch.Tensor | None, expected: torch.Tensor | None) -> bool:
    if actual is None or expected is None:
        return actual is not expected
    near = 1e-5 * largest_finite(expected)
    return actual.shape != expected.shape or not torch.allclose(actual, expected, rtol=0, atol=near, equal_nan=True)


@clause("Collective.forward.any-layout")
@ranks(2, 3)
@cases(
    layout=[
        "transposed in memory",
        "sliced out of wider memory",
        "cut out of longer memory",
        "expanded along the first dimension",
    ]
)
@deadline(10)
def test_arguments_of_any_layout(subject: Subject, world: World, layout: str) -> None:
    """Arguments in another layout give the same as contiguous ones, or raise an error on every rank."""
    tried = False
    for claim in claims(subject, world):
        mine = claim.held(world)
        exact = claim.call.as_called(mine)
        # Of copies: a Function may change what it is given.
        strange = [LAYOUTS[layout](x.clone()) if differentiable(x) else x.clone() for x in exact]
        differs = any(map(lies_otherwise, strange, exact))
        if not any(world.exchange(differs)):
            continue
        exact = [other.contiguous() if shares_elements(other) else x for x, other in zip(exact, strange, strict=True)]
        tried |= _expect_same_or_refused(claim, exact, strange, layout, world)
    need(tried, UNASKED)


def _expect_same_or_refused(
    claim: Claim, exact: list[torch.Tensor], strange: list[torch.Tensor], layout: str, world: World
) -> bool:
    before = [x.clone() for x in exact]
    with DrawingMode() as drawing:
        expected = _ended(lambda: claim.call.called(exact, world_group()))
    if any(world.exchange(bool(drawing.found))):
        return False  # random numbers follow the order in memory
    shared = [place for place, x in enumerate(strange) if shares_elements(x)]
    if any(world.exchange(any(not same_values(before[place], exact[place]) for place in shared))):
        return False  # to write into an expanded tensor is not defined
    actual = _ended(lambda: claim.call.called(strange, world_group()))
    what = f"{claim.call.label} with arguments that are {layout}"
    _expect_all_or_none_to_raise(actual, what, world)
    if isinstance(actual, list):
        assert isinstance(expected, list)
        if not _expect_same("result", f"of {what}", actual, expected, world):
            return True  # the ranks that it is wrong on say so
    return True


def _expect_all_or_none_to_raise(ended: Ended, what: str, world: World) -> None:
    raised = f"{type(ended).__name__}: {ended}" if isinstance(ended, Exception) else ""
    try:
        said = world.exchange(raised, raised=bool(raised))
    except LeftAlone:
        said = [raised if rank == world.rank else "" for rank in range(world.size)]
    if any(said) and not all(said):
        which = next(rank for rank, error in enumerate(said) if error)
        found = f"rank {which}, not rank {said.index('')}: {said[which]}"
        raise Deviation(f"ranks that raise an error for {what}", found, "all, or none")


def _expect_same(name: str, of: str, actual: _Tensors, expected: _Tensors, world: World, note: str = "") -> bool:
    """Whether tensors are the same on every rank.

    Raises:
        Deviation: they are not on this one.
    """
    far = world.exchange([_far(one, other) for one, other in zip(actual, expected, strict=True)])
    for at, (one, other) in enumerate(zip(actual, expected, strict=True)):
        if any(rank[at] for rank in far):
            if not far[world.rank][at]:
                return False
            laid, right = expect.shown_apart(one, other)
            raise Deviation(f"{name} {at} {of}", laid, f"{right}{note}")
    return True


def _ended(action: Callable[[], list[torch.Tensor]]) -> Ended:
    try:
        return [result.detach().clone() for result in action()]
    except Exception as error:
        return error
