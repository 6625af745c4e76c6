"""Check the gradients of a claim again before reporting that they are wrong."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.kit.deviations import need
from conformance.kit.numerics.nearby import rms_size
from conformance.kit.numerics.tolerances import SINGLE
from conformance.kit.process_groups import all_ranks, world_group
from conformance.kit.spmd.claims import Claim, by_types, signature_of
from conformance.kit.spmd.keeps import find, judge_signature
from conformance.kit.spmd.observation import differs, observe
from conformance.kit.spmd.reasons import NOT_BY_ITS_SUM
from conformance.kit.world import World


def wrong_gradient(claim: Claim, world: World) -> str:
    """Describe the error in the gradients in one sentence; empty if there is none, or differences are inconclusive."""
    signature = signature_of(claim)
    why = judge_signature(signature, {differs(signature): claim.observed}).why
    ranks, run = all_ranks(world), claim.call.in_group(world_group())
    if not why:
        return ""
    samples = ranks.agreed(claim.call.samples())
    # Before it accuses: as one that works in single precision inside, and away from where a kink may be.
    again = [(samples, max(claim.call.precision, SINGLE)), (moved(samples), claim.call.precision)]
    for values, precision in again:
        (second,) = find(ranks, run, values, claim.results, [signature], precision)
        if second.kept:
            return ""
    if claim.call.dtype != torch.float64 and any(_is_right_by_double(claim, values, world) for values, _ in again):
        return ""
    return claim.call.told(why)


def need_right_gradient(claim: Claim, world: World) -> None:
    """End the test as not applicable if the gradients are wrong, and refer to the broken clause."""
    why = wrong_gradient(claim, world)
    need_sums(why)
    need(not why, "its gradient is wrong; see Collective.backward.gradient")


def need_sums(why: str) -> None:
    """End the test as not applicable if gradients are wrong because an argument of type P is not used as a sum."""
    need(NOT_BY_ITS_SUM not in why, "not only the sum of an argument of type P is used; see Collective.forward.types")


def _is_right_by_double(claim: Claim, samples: Sequence[torch.Tensor], world: World) -> bool:
    """Whether a call in a lower precision gives the same as in double precision, and that is right.

    The steps of its own differences are wide, in half precision a fifth of the numbers, and go past many a kink.
    """
    signature, ranks = signature_of(claim), all_ranks(world)
    exact, coarse = claim.call.converted(torch.float64), claim.call.precision
    mine = by_types(samples, signature, world.rank)
    if coarse <= exact.precision or world.try_call(exact.in_group(world_group()), mine) is None:
        return False
    look = None
    for call in (exact, claim.call):
        look = observe(ranks, call.in_group(world_group()), samples, differs(signature), call.precision, look)
    return look is not None and look.is_exact and judge_signature(signature, {differs(signature): look}).kept


def moved(samples: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return other samples nearby; whole numbers are unchanged."""
    return [_moved(sample, at) if sample.requires_grad else sample for at, sample in enumerate(samples)]


def _moved(sample: torch.Tensor, at: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(at)
    drawn = torch.randn(sample.shape, dtype=sample.dtype, generator=generator, device="cpu").to(sample.device)
    return (sample.detach() + 0.05 * rms_size(sample) * drawn).requires_grad_()
