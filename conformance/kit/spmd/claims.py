"""The signature that a collective claims, or those it keeps if it claims none, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from conformance.core.signatures import Signature, Type, strongest
from conformance.kit.deviations import NotApplicable, Skipped, need
from conformance.kit.numerics.derivatives import SURROGATE
from conformance.kit.numerics.nearby import rms_size
from conformance.kit.process_groups import all_ranks, world_group
from conformance.kit.spmd.counts import with_uneven_counts
from conformance.kit.spmd.hooks import declared, declares
from conformance.kit.spmd.keeps import SignatureJudgement, find
from conformance.kit.spmd.observation import Observation, observe
from conformance.kit.spmd.owed import GroupCall
from conformance.kit.spmd.tensor_calls import TensorCall, tensor_calls
from conformance.kit.subject import Subject
from conformance.kit.tolerances import SINGLE
from conformance.kit.typed_samples import claimed
from conformance.kit.typed_values import Ranks, by_types, reshared, tangent
from conformance.kit.world import World

#: Up to how many tensors all signatures are tried, and up to how many kept signatures are an answer.
_FEW = 3
GIVE_TYPES = 'give its types, such as --types "V, R -> V"'
#: Types of arguments and results that say little: whatever ranks that hold the same compute, as a maximum of them.
LITTLE = [({Type.R}, {Type.P}), ({Type.R}, {Type.R}), ({Type.I}, {Type.I})]


@dataclass(frozen=True)
class Claim:
    """One sample's call, the signature that it is judged by, and the observation of the ranks.

    Attributes:
        signature: the claimed signature, or the strongest that is kept; None if nothing was claimed or found.
        found: what it keeps, if nothing was claimed.
        look: what the ranks did with inputs of the signature's types.
        results: how many tensors it returns.
        is_finest: whether this is the finest precision that it takes.
    """

    call: TensorCall
    signature: Signature | None
    found: tuple[SignatureJudgement, ...]
    look: Observation | None
    results: int
    is_finest: bool

    @property
    def is_found(self) -> bool:
        """Whether nothing was claimed, so the signatures that it keeps are used."""
        return bool(self.found) or self.signature is None

    @property
    def is_declared(self) -> bool:
        """Whether the class declares it for spmd_types."""
        return self.call.subject.types is None and not self.is_found

    def ranks_that_differ(self) -> tuple[int, tuple[int, int]] | None:
        """Return a result of type R or I that differs between two ranks, and the ranks."""
        for result, kind in enumerate(signature_of(self).results):
            pair = None if kind.differs else self.observed.differing(result)
            if pair:
                return result, pair
        return None

    @property
    def observed(self) -> Observation:
        """What the ranks did with inputs of the signature's types."""
        signature_of(self)
        assert self.look is not None
        return self.look

    def held(self, world: World) -> list[torch.Tensor]:
        """Return this rank's tensors, by the types of the signature. Every rank calls this."""
        return arguments_held(self.call, world, signature_of(self))

    def directions(self, mine: Sequence[torch.Tensor], rank: int) -> dict[int, torch.Tensor]:
        """Return a tangent for each differentiated argument on a rank; for types R and I the same on all ranks."""
        kinds = signature_of(self).arguments
        return {at: tangent(kinds[at], mine[at], rank, at) for at in _differentiated(self)}


def claims(subject: Subject, world: World, dtype: str = "float64") -> list[Claim]:
    """Return what each sample claims or keeps, in the group of all ranks; computed once for each dtype.

    Raises:
        NotApplicable: the subject does not take the dtype.
        Skipped: no signature was given, and there are too many to try.
    """

    def found() -> list[Claim]:
        calls = calls_in(subject, world, dtype)
        exact = [None] * len(calls) if dtype == "float64" else claims(subject, world)
        pairs = zip(calls, exact, strict=True)
        return [one if one and one.call.dtypes == call.dtypes else _claim(call, world, one) for call, one in pairs]

    return world.once(("claims", dtype), found)


def need_judged_on(subject: Subject, ranks: int) -> None:
    """End the test as not applicable if the subject names other world sizes only."""
    own = subject.ranks or (ranks,)
    need(ranks in own, f"it is judged with {' or '.join(map(str, own))} ranks only")


def expect_fitting_types(subject: Subject, world: World) -> None:
    """Call a subject with each sample, and count the tensors that come.

    Raises:
        BadTypes: its types name another number of them.
    """
    for call in calls_in(subject, world):
        samples = all_ranks(world).agreed(call.samples())
        results = len(call.in_group(world_group())(by_types(samples, None, world.rank)))
        if results:  # a call without any is judged by a clause
            claimed(subject.types, len(samples), results)


def calls_in(subject: Subject, world: World, dtype: str = "float64") -> list[TensorCall]:
    """Return every sample's call in a dtype. If double precision raises, each tensor keeps its own dtype.

    Raises:
        NotApplicable: another dtype raises.
    """
    found = []
    for call in tensor_calls(subject, world):
        changed = call.converted(getattr(torch, dtype))
        if world.try_call(lambda call: call.in_group(world_group())(arguments_held(call, world)), changed) is None:
            need(dtype == "float64", f"it refuses {dtype}")
            changed = call
        found.append(with_uneven_counts(changed, world))
    return found


def arguments_held(call: TensorCall, world: World, signature: Signature | None = None) -> list[torch.Tensor]:
    """Return this rank's tensors for a call, by a signature; all of type V if there is none."""
    samples = all_ranks(world).agreed(call.samples())
    return by_types(samples, signature, world.rank)


def moved(samples: Sequence[torch.Tensor], number: int = 0) -> list[torch.Tensor]:
    """Return other samples nearby, by number; whole numbers are unchanged."""
    return [_moved(x, 1000 * number + at) if x.requires_grad else x for at, x in enumerate(samples)]


def _moved(sample: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(sample.shape, dtype=sample.dtype, generator=generator, device="cpu").to(sample.device)
    return (sample.detach() + 0.05 * rms_size(sample) * drawn).requires_grad_()


def _claim(call: TensorCall, world: World, exact: Claim | None) -> Claim:
    """Make one call on all ranks, and choose the signature that it is judged by; that in double precision may help."""
    ranks, run = all_ranks(world), call.in_group(world_group())
    samples = ranks.agreed(call.samples())
    results = len(run(by_types(samples, None, world.rank)))
    everyones = world.exchange(results)
    need(any(everyones), "it returns no tensor; see Collective.forward.types")
    need(len(set(everyones)) == 1, "ranks get different numbers of tensors from it; see Collective.forward.types")
    signature = claimed(call.subject.types, len(samples), results)
    found: tuple[SignatureJudgement, ...] = ()
    if signature is None and declares(call.subject.function) and world.size > 1:
        signature = _hooked(call, world, results)
    elif signature is None and exact:
        signature, found = exact.signature, exact.found
    elif signature is None:
        if len(samples) + results > _FEW:
            raise Skipped(f"it has {len(samples) + results} tensors, too many to try all signatures: {GIVE_TYPES}")
        if call.precision > SINGLE:
            raise Skipped(f"it takes half precision alone, too coarse to find its types: {GIVE_TYPES}")
        kept = kept_of(ranks, run, samples, results, call.precision)
        found = tuple(finding for finding in kept if finding.kept)
        best = strongest([finding.signature for finding in found])
        signature = best[0] if best else None
    finer = exact is not None and exact.signature == signature and exact.call.precision < call.precision
    known = exact.look if exact and finer else None
    look = observe(ranks, run, samples, [signature], call.precision, known) if signature else None
    return Claim(call, signature, found, look, results, exact is None)


def _hooked(call: TensorCall, world: World, results: int) -> Signature:
    """What the class declares for spmd_types: of several signatures, one that it does not keep, or the strongest."""
    ranks, run = all_ranks(world), call.in_group(world_group())
    samples = ranks.agreed(call.samples())
    if len(samples) > _FEW:
        raise Skipped(f"it has {len(samples)} tensor arguments, too many to ask spmd_types for all types of them")
    exact = call.as_called(by_types(samples, None, world.rank))
    taken, refusal = declared(lambda tensors: call.called(tensors, world_group()), exact, world_group())
    if not taken:
        raise Skipped(
            f"what it declares for spmd_types takes tensors of no type ({refusal}): mend it, or give types with --types"
        )
    broken = [one for one in find(ranks, run, samples, results, taken, call.precision) if not one.kept]
    return broken[0].signature if broken else strongest(taken)[0]


def kept_of(
    ranks: Ranks,
    run: GroupCall,
    samples: Sequence[torch.Tensor],
    results: int,
    precision: float,
    signatures: Sequence[Signature] | None = None,
) -> list[SignatureJudgement]:
    """Find for each signature (all if None) whether it is kept, allowing single precision inside."""
    fine = find(ranks, run, samples, results, signatures, precision)
    if any(finding.kept for finding in fine) or precision >= SINGLE:
        return fine
    return find(ranks, run, samples, results, signatures, SINGLE)


def signatures_kept(claim: Claim, world: World) -> str:
    """Name the signatures that are kept instead of the claimed one; empty if they are many. Every rank calls this."""
    samples = all_ranks(world).agreed(claim.call.samples())
    if len(samples) + claim.results > _FEW:
        return ""
    found = kept_of(all_ranks(world), claim.call.in_group(world_group()), samples, claim.results, claim.call.precision)
    kept = [finding.signature for finding in found if finding.kept]
    if not kept:
        return SURROGATE if _stands_still(claim) else "it keeps no signature at all"
    # The type of a tensor without a gradient shows in nothing.
    moved = _differentiated(claim)
    fixed = [(at, kind) for at, kind in enumerate(signature_of(claim).arguments) if at not in moved]
    telling = [one for one in kept if all(one.arguments[at] is kind for at, kind in fixed)]
    best = [one for one in strongest(telling) if ({one.arguments[at] for at in moved}, set(one.results)) not in LITTLE]
    if len(best) > _FEW:
        return ""  # numbers too coarse to tell them apart
    return f"it keeps {' and '.join(map(str, best))} instead" if best else ""


def _stands_still(claim: Claim) -> bool:
    """Whether no result answers to any argument, as where it is rounded to a grid."""
    return not any(bool(one.table.any()) for row in claim.observed.slopes.values() for one in row if one)


def _differentiated(claim: Claim) -> list[int]:
    return [at for at, tensor in enumerate(claim.call.tensors) if tensor.requires_grad]


def in_other_shares(claim: Claim, world: World) -> list[list[torch.Tensor | None]] | None:
    """Return every rank's results after redistributing arguments of type P; None if there are none."""
    kinds = signature_of(claim).arguments
    if Type.P not in kinds:
        return None
    dealt = [
        reshared(x, world.rank, world.size, at) if kind is Type.P else x
        for at, (kind, x) in enumerate(zip(kinds, claim.held(world), strict=True))
    ]
    return all_ranks(world).tensors(claim.call.in_group(world_group())(dealt))


def in_smaller_group(claim: Claim, results: int) -> Signature:
    """Return the signature for a group in which it returns this many tensors: there may be one for each rank.

    Raises:
        NotApplicable: it returns other tensors there, whose types are unknown.
    """
    signature = signature_of(claim)
    if len(signature.results) == results:
        return signature
    need(len(set(signature.results)) == 1, "it returns more tensors in some groups, and their types are not given")
    return Signature(signature.arguments, signature.results[:1] * results)


def signature_of(claim: Claim) -> Signature:
    """Return the signature to judge by.

    Raises:
        NotApplicable: none was claimed, and it keeps none.
    """
    if claim.signature is None:
        raise NotApplicable("no types were given, and it keeps no signature; see Collective.backward.gradient")
    return claim.signature


def need_types(subject: Subject, world: World) -> None:
    """End the test as not applicable if no types were given, and say which are kept."""
    if any(claim.is_found for claim in claims(subject, world)):
        kept = [strongest([finding.signature for finding in claim.found]) for claim in claims(subject, world)]
        told = dict.fromkeys(" and ".join(map(str, best)) or "no signature" for best in kept)
        raise NotApplicable(f"no types were given; it keeps {', '.join(told)}")
