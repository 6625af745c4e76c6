"""Observe the ranks with inputs that differ between ranks, or are equal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from conformance.core.signatures import Signature, Type
from conformance.kit import tolerances
from conformance.kit.numerics.slopes import curvature
from conformance.kit.spmd.owed import GroupCall, Slopes, backward, loss_slopes
from conformance.kit.tensors import differentiable, to_double
from conformance.kit.typed_values import Ranks, argument, bits, cotangent

#: A result, and whether the ranks' cotangents for it differ, as they do for types R and V.
LossOfResult = tuple[int, bool]


@dataclass(frozen=True)
class Observation:
    """The result of one observation of all ranks, the same on every rank.

    Attributes:
        results: every rank's results.
        differentiable: the results that have a gradient.
        slopes: for a loss that uses one result alone, how it answers when each argument moves. None for an argument
            that asks for no gradient.
        gradients: for the same loss, what backward returned for each argument, on every rank.
        is_exact: whether the slopes are those of double precision, while results and gradients are of a lower one.
    """

    results: list[list[torch.Tensor | None]]
    differentiable: tuple[int, ...]
    slopes: dict[LossOfResult, tuple[Slopes | None, ...]]
    gradients: dict[LossOfResult, list[list[torch.Tensor | None]]]
    is_exact: bool = False

    @property
    def has_no_number(self) -> bool:
        """Whether every element that has a gradient is infinite or no number, on every rank."""
        every = [results[at] for results in self.results for at in self.differentiable]
        told = [y.isfinite() for y in every if y is not None and y.numel()]
        return bool(told) and not any(bool(finite.any()) for finite in told)

    def differing(self, result: int) -> tuple[int, int] | None:
        """Return two ranks whose results are not the same bit for bit."""
        first = _bits(self.results[0][result])
        for rank, results in enumerate(self.results):
            if _bits(results[result]) != first:
                return 0, rank
        return None


def differs(signature: Signature) -> tuple[bool, ...]:
    """Return for each argument whether ranks hold different values: what has the same is observed at once."""
    return tuple(kind.differs for kind in signature.arguments)


def observe(
    ranks: Ranks,
    run: GroupCall,
    samples: Sequence[torch.Tensor],
    signatures: Sequence[Signature],
    precision: float,
    exact: Observation | None = None,
) -> Observation:
    """Observe all ranks once. Every rank calls it with the same samples, in double precision.

    A loss uses one result, with gradients that differ between ranks or not, as a signature has it: others are not owed.

    Args:
        ranks: the ranks of the group.
        run: the Function, called with one tensor for each sample.
        samples: the tensor arguments; those that require grad are differentiated.
        signatures: what it is observed for; for each argument they agree on whether ranks get different values.
        precision: the machine epsilon that the Function works with.
        exact: the same in double precision. If results agree with it to rounding, so do slopes, and they are not
            measured again: in half precision its own would be those of steps a fifth as long as the numbers, and an
            error of a factor of two would pass.
    """
    pairs = enumerate(zip(signatures[0].arguments, samples, strict=True))
    mine = [argument(kind, sample, ranks.rank, at) for at, (kind, sample) in pairs]
    results = list(run(mine))
    told = ranks.exchange([[differentiable(y), y.requires_grad] for y in results])
    everyones = ranks.tensors(results)
    places = _with_gradient(told)
    losses: dict[LossOfResult, list[torch.Tensor | None]] = {
        (at, own): _cotangents(results, at, own, ranks.rank)
        for at in places
        for own in sorted({signature.results[at].loss_differs for signature in signatures})
    }
    gradients = {loss: ranks.tensors(backward(run, mine, given)) for loss, given in losses.items()}
    if exact is not None and places == exact.differentiable and _are_rounded(everyones, exact.results, precision):
        largest = map(max, zip(*ranks.exchange([_largest(given) for given in losses.values()]), strict=True))
        known = {
            loss: tuple(one and _in_lower_precision(one, precision, most) for one in row)
            for most, (loss, row) in zip(largest, exact.slopes.items(), strict=True)
        }
        return Observation(everyones, places, known, gradients, is_exact=True)
    slopes = loss_slopes(ranks, run, mine, differs(signatures[0]), list(losses.values()), precision)
    asked = [x.requires_grad for x in mine]
    kept = [tuple(one if wanted else None for one, wanted in zip(row, asked, strict=True)) for row in slopes]
    return Observation(everyones, places, dict(zip(losses, kept, strict=True)), gradients)


def _with_gradient(told: list[list[list[bool]]]) -> tuple[int, ...]:
    """Return the results that have a gradient on some rank; all of floating point if none has."""
    columns = [tuple(zip(*column, strict=True)) for column in zip(*told, strict=True)]
    floating = [at for at, (floats, _) in enumerate(columns) if any(floats)]
    return tuple(at for at in floating if any(columns[at][1])) or tuple(floating)


def _cotangents(results: Sequence[torch.Tensor], at: int, own: bool, rank: int) -> list[torch.Tensor | None]:
    given: list[torch.Tensor | None] = [None] * len(results)
    given[at] = cotangent(Type.V if own else Type.P, results[at], rank, at)
    return given


def _largest(given: Sequence[torch.Tensor | None]) -> float:
    return max((float(g.abs().max()) for g in given if g is not None and g.numel()), default=0.0)


def _in_lower_precision(slopes: Slopes, precision: float, largest: float) -> Slopes:
    """Those that a gradient in a lower precision is held against, where what comes in is at most so large."""
    noise = tolerances.SUMS_TO_ZERO * precision * largest / len(slopes.noises)
    noises = tuple(one + noise for one in slopes.noises)
    return replace(slopes, noises=noises, tolerance=min(curvature(precision), tolerances.RESOLUTION_IN_HALF))


def _are_rounded(
    everyones: Sequence[Sequence[torch.Tensor | None]], exact: Sequence[Sequence[torch.Tensor | None]], precision: float
) -> bool:
    """Whether the results of all ranks are those in double precision up to a little rounding."""
    found, expected = list(itertools.chain(*everyones)), list(itertools.chain(*exact))
    return len(found) == len(expected) and all(
        _is_rounded(one, other, precision) for one, other in zip(found, expected, strict=True)
    )


def _is_rounded(one: torch.Tensor | None, exact: torch.Tensor | None, precision: float) -> bool:
    if one is None or exact is None or one.shape != exact.shape:
        return one is exact
    wide, other = to_double(one), to_double(exact)
    # What a mask makes infinite or no number is the same in every precision.
    alike = ~wide.isfinite() & ((wide == other) | (wide.isnan() & other.isnan()))
    apart, size = (wide - other).masked_fill(alike, 0), other.masked_fill(alike, 0)
    return not wide.numel() or bool(apart.abs().max() <= tolerances.AS_IN_DOUBLE * precision * size.abs().max())


def _bits(tensor: torch.Tensor | None) -> object:
    if tensor is None:
        return None
    return tuple(tensor.shape), tensor.dtype, bits(tensor)
