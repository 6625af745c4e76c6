"""A collective as one function of the numbers that all ranks hold, which the oracles of a single rank can judge.

Its inputs are what the type of an argument lets move: each rank's numbers for types V and P, the common ones for R and
I. Its results are what the types of results let a loss use: each rank's for V and R, their sum for P, the common ones
for I. Its gradient is what those of the ranks are by the argument's type: each one's own, or for type R their sum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from conformance.core.signatures import Type
from conformance.kit.deviations import Skipped
from conformance.kit.judgement import Judgement
from conformance.kit.numerics.slopes import epsilon
from conformance.kit.oracles import gradient
from conformance.kit.oracles.inputs import as_tensor, as_vector
from conformance.kit.oracles.sample import is_enough, too_coarse
from conformance.kit.oracles.vector_function import Vector, VectorFunction
from conformance.kit.process_groups import all_ranks, world_group
from conformance.kit.spmd.claims import Claim, moved, signature_of
from conformance.kit.spmd.owed import backward
from conformance.kit.tolerances import RESOLUTION_IN_HALF, SINGLE
from conformance.kit.typed_values import by_types
from conformance.kit.world import World

_Any = TypeVar("_Any")
NAME = "differences over all ranks"


def is_coarse(claim: Claim) -> bool:
    """Whether a Function takes half precision alone: differences in it are too coarse to judge."""
    return claim.is_finest and claim.call.precision > SINGLE and not claim.call.is_declared


def judged_over_ranks(claim: Claim, world: World) -> dict[int, Judgement]:
    """Say of the gradient of each argument how small an error in it would have been detected; every rank calls this.

    Coarse claims are judged anew, by the oracle with the finest resolution: at the sample, and where that says it is
    wrong, near it too, since there may be a kink.
    """
    if not is_coarse(claim):
        return _of_differences(claim)
    samples = all_ranks(world).agreed(claim.call.samples())

    def judged() -> dict[int, Judgement]:
        found = {}
        for at in (at for at, tensor in enumerate(claim.call.tensors) if tensor.requires_grad):
            found[at] = gradient.judge(joint_function(claim, at, samples, world))
            if found[at].verdict == "differs":
                again = gradient.judge(joint_function(claim, at, moved(samples), world))
                found[at] = found[at] if again.verdict == "differs" else again
        return found

    return world.once(("jointly", claim.call.label, claim.call.dtype), judged)


def detectable(claim: Claim, world: World) -> str:
    """Describe the smallest error that would have been detected in any gradient, and note it for the report.

    Raises:
        Skipped: it is coarser than it has to be, in a Function that takes half precision alone.
    """
    found = {f"argument {at} of {claim.call.label}": one for at, one in judged_over_ranks(claim, world).items()}
    for name, one in found.items():
        world.note(name, one)
    limit = world.resolution or RESOLUTION_IN_HALF
    coarse = {name: one for name, one in found.items() if not is_enough(one, limit) and not one.may_be_meant}
    if is_coarse(claim) and coarse:
        raise Skipped(too_coarse(coarse))
    seen = [one for one in found.values() if math.isfinite(one.resolution)]
    return max(seen, key=lambda one: one.resolution).seen if seen else ""


def _of_differences(claim: Claim) -> dict[int, Judgement]:
    """Return what differences over all ranks would have detected of each result that the argument changes."""
    found: dict[int, Judgement] = {}
    for row in claim.observed.slopes.values():
        for at, slopes in enumerate(row):
            if slopes is None:
                continue
            scale = float(slopes.table.sum(1).abs().max()) if slopes.table.numel() else 0.0
            if not scale:
                continue
            part, calls = slopes.tolerance + slopes.noise / scale, 2 * slopes.table[:, 0].numel()
            one = Judgement("agrees", NAME, resolution=part, elsewhere=part, noise=slopes.noise, calls=calls)
            found[at] = max(found.get(at, one), one, key=lambda judgement: judgement.resolution)
    return found


def joint_function(claim: Claim, at: int, samples: Sequence[torch.Tensor], world: World) -> VectorFunction:
    """Return a call on all ranks as a function of one argument; every rank calls it at the same time."""
    everyone, signature, places = all_ranks(world), signature_of(claim), claim.observed.differentiable
    held = claim.call.as_called(by_types(samples, signature, world.rank))
    kind, kinds = signature.arguments[at], [signature.results[place] for place in places]
    wanted = [tensor.requires_grad for tensor in claim.call.tensors]

    def call(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return claim.call.called(tensors, world_group())

    results = [y.detach() for y in call([x.clone() for x in held])]
    inputs = _Numbers.of([held[at]], [kind.differs], world)
    outputs = _Numbers.of([results[place] for place in places], [one.loss_differs for one in kinds], world)

    def with_numbers(x: Vector) -> list[torch.Tensor]:
        return [*(y.clone() for y in held[:at]), *inputs.of_rank(x), *(y.clone() for y in held[at + 1 :])]

    def forward(x: Vector) -> Vector:
        found = _on_all(lambda: call(with_numbers(x)), world)
        return outputs.joined(everyone.tensors([found[place] for place in places]), [one is Type.P for one in kinds])

    def back(x: Vector, g: Vector) -> Vector:
        parts = dict(zip(places, outputs.of_rank(g), strict=True))
        given = [parts.get(place) for place in range(len(results))]
        point = [y.requires_grad_(asks) for y, asks in zip(with_numbers(x), wanted, strict=True)]
        (found,) = _on_all(lambda: [backward(call, point, given)[at]], world)
        return inputs.joined(
            everyone.tensors([torch.zeros_like(held[at]) if found is None else found]), [kind is Type.R]
        )

    coarsest = max(world.exchange(epsilon([held[at], *(results[place] for place in places)])))
    value = inputs.joined(everyone.tensors([held[at]]), [False])
    return VectorFunction(value, forward, back, inputs.rounded, outputs.rounded, coarsest, coarsest)


def _on_all(call: Callable[[], list[_Any]], world: World) -> list[_Any]:
    found = world.try_call(call)
    if found is None:
        raise ValueError("a rank refuses these numbers")
    return found


@dataclass(frozen=True)
class _Numbers:
    """How the numbers of some tensors lie in one vector: those of the first on rank 0, on rank 1, and so on.

    Attributes:
        likes: this rank's tensors.
        differ: for each, whether every rank has its own numbers; else they are there once.
        sizes: for each, how many numbers there are of every rank, or in common.
        rank: this rank.
    """

    likes: Sequence[torch.Tensor]
    differ: Sequence[bool]
    sizes: Sequence[Sequence[int]]
    rank: int

    @classmethod
    def of(cls, likes: Sequence[torch.Tensor], differ: Sequence[bool], world: World) -> _Numbers:
        """Ask every rank how many numbers it has."""
        everyones = world.exchange([as_vector(like).numel() for like in likes])
        columns = [list(column) for column in zip(*everyones, strict=True)]
        return cls(
            likes, differ, [own if one else own[:1] for own, one in zip(columns, differ, strict=True)], world.rank
        )

    def _parts(self, x: Vector) -> list[list[Vector]]:
        parts = iter(x.split([size for sizes in self.sizes for size in sizes]))
        return [list(itertools.islice(parts, len(sizes))) for sizes in self.sizes]

    def of_rank(self, x: Vector) -> list[torch.Tensor]:
        """Return this rank's tensors."""
        every = zip(self._parts(x), self.likes, self.differ, strict=True)
        return [as_tensor(parts[self.rank if differs else 0], like).clone() for parts, like, differs in every]

    def rounded(self, x: Vector) -> Vector:
        """Round every number to the dtype of its tensor."""
        every = zip(self._parts(x), self.likes, strict=True)
        return torch.cat([part.to(like.dtype.to_real()).double() for parts, like in every for part in parts])

    def joined(self, everyones: Sequence[Sequence[torch.Tensor | None]], summed: Sequence[bool]) -> Vector:
        """Make the vector from the tensors of all ranks; what is in common is a sum of theirs, or the first rank's."""
        found = []
        for own, differs, adds in zip(zip(*everyones, strict=True), self.differ, summed, strict=True):
            vectors = [as_vector(one) for one in own if one is not None]
            found += vectors if differs else [torch.stack(vectors).sum(0)] if adds else vectors[:1]
        return torch.cat(found)
