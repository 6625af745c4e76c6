"""Check the gradients of a claim again before reporting that they are wrong."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.kit.deviations import Skipped, need
from conformance.kit.judgement import ALONG, percent
from conformance.kit.process_groups import all_ranks, world_group
from conformance.kit.spmd.claims import Claim, moved, signature_of
from conformance.kit.spmd.joint import is_coarse, judged_over_ranks
from conformance.kit.spmd.keeps import find, judge_signature
from conformance.kit.spmd.observation import differs, observe
from conformance.kit.spmd.reasons import NOT_BY_ITS_SUM
from conformance.kit.tolerances import SINGLE
from conformance.kit.typed_values import by_types
from conformance.kit.world import World


def wrong_gradient(claim: Claim, world: World) -> str:
    """Describe the error in the gradients in one sentence; empty if there is none, or differences are inconclusive."""
    signature = signature_of(claim)
    why = judge_signature(signature, {differs(signature): claim.observed}).why
    ranks, run = all_ranks(world), claim.call.in_group(world_group())
    if not why:
        return _wrong_jointly(claim, world) if is_coarse(claim) else ""
    samples = ranks.agreed(claim.call.samples())
    if claim.observed.is_exact and (right := _is_right_nearby(claim, samples, world)) is not None:
        return "" if right else claim.call.told(why)
    # Before it accuses: as one that works in single precision inside, and away from where a kink may be.
    again = [(samples, max(claim.call.precision, SINGLE)), (moved(samples), claim.call.precision)]
    for values, precision in again:
        (second,) = find(ranks, run, values, claim.results, [signature], precision)
        if second.kept:
            return ""
    if any(_is_right_by_double(claim, values, world) for values, _ in again):
        return ""
    return claim.call.told(why)


def _wrong_jointly(claim: Claim, world: World) -> str:
    """Describe an error in half precision alone, in which the differences of the claim show only gross ones."""
    for at, found in judged_over_ranks(claim, world).items():
        if found.is_gross:
            is_along = found.rule == ALONG
            size = (
                f"{1 + found.error:.4g} times the expected one" if is_along else f"off by {percent(abs(found.error))}"
            )
            return f"the gradient of argument {at} over all ranks is {size} ({found.oracle}, {found.calls} calls)"
    return ""


def need_right_gradient(claim: Claim, world: World) -> None:
    """End the test as not applicable if the gradients are wrong, and refer to the broken clause."""
    why = wrong_gradient(claim, world)
    need_sums(why)
    need(not why, "its gradient is wrong; see Collective.backward.gradient")


def need_numbers(claim: Claim) -> None:
    """Skip the test if no element of a claim's results is a number."""
    if claim.observed.has_no_number:
        raise Skipped(f"no gradient of {claim.call.label} is judged: its results are infinite or not a number")


def need_sums(why: str) -> None:
    """End the test as not applicable if gradients are wrong because an argument of type P is not used as a sum."""
    need(NOT_BY_ITS_SUM not in why, "not only the sum of an argument of type P is used; see Collective.forward.types")


def _is_right_nearby(claim: Claim, samples: Sequence[torch.Tensor], world: World) -> bool | None:
    """Whether a gradient in a lower precision is right somewhere near, where no kink may be, by that in double.

    None if results do not agree to rounding everywhere, or if double precision is wrong too.
    """
    for values in (moved(samples, number) for number in (0, 1)):
        found = _is_right_by_double(claim, values, world)
        if found is not False:
            return found
    return False


def _is_right_by_double(claim: Claim, samples: Sequence[torch.Tensor], world: World) -> bool | None:
    """Whether a call in a lower precision is right by the slopes of double precision; None if they say nothing.

    The steps of its own differences are wide, in half precision a fifth of the numbers, and go past many a kink.
    """
    signature, ranks = signature_of(claim), all_ranks(world)
    exact, coarse = claim.call.converted(torch.float64), claim.call.precision
    mine = by_types(samples, signature, world.rank)
    if coarse <= exact.precision or world.try_call(exact.in_group(world_group()), mine) is None:
        return None
    fine = observe(ranks, exact.in_group(world_group()), samples, [signature], exact.precision)
    own = observe(ranks, claim.call.in_group(world_group()), samples, [signature], coarse, fine)
    if not own.is_exact:
        return None
    fine_kept, own_kept = (judge_signature(signature, {differs(signature): look}).kept for look in (fine, own))
    return own_kept if own_kept or fine_kept else None
