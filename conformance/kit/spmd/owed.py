"""Compute the expected gradient of each argument, by central differences over all ranks together.

A loss has one part on each rank. With cotangents *g*, what a result *y* adds to it is:

- type V or R: the inner product of this rank's *g* with this rank's *y* (for R, where *y* is the same everywhere, these
  add up to that of *y* with the sum of all *g*);
- type P: the same, with one *g* for all ranks: together, that of *g* with the sum of all *y*;
- type I: one loss that all ranks share, so each rank has the N-th part of it (:meth:`Slopes.scaled`).

An argument of type V or P is changed on one rank at a time, one of type R or I on all ranks at once.

If a subject declares its gradients, its formula replaces the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from conformance.kit.numerics.differences import central, shifted
from conformance.kit.numerics.nearby import rms_size
from conformance.kit.numerics.slopes import curvature
from conformance.kit.tensors import differentiable, to_double
from conformance.kit.typed_values import Ranks

#: Calls the Function on this rank's tensors. All ranks call it at the same time.
GroupCall = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
#: A cotangent for each result; None where the loss does not use it.
Cotangents = Sequence[torch.Tensor | None]


@dataclass(frozen=True)
class DeclaredGroupCall:
    """A :data:`GroupCall` whose gradients are declared, and not derivatives.

    Attributes:
        run: the Function.
        gradients: what the formula gives on this rank for each argument, for such cotangents; None where it says
            nothing. All ranks ask it at the same time.
    """

    run: GroupCall
    gradients: Callable[[Sequence[torch.Tensor], Cotangents], list[torch.Tensor | None]]

    def __call__(self, arguments: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The results."""
        return self.run(arguments)


#: What double precision keeps. Say more to differentiate a Function that works in a lower one inside.
DOUBLE = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Slopes:
    """The change of a loss with one argument.

    Attributes:
        table: ``table[m, s]`` is the derivative of rank s's part of the loss by the argument moved on rank m, in the
            argument's shape. Where the argument moves on all ranks at once there is one m alone. For complex arguments
            it is PyTorch's: by the real part, plus i times that by the imaginary part.
        noises: the error that rounding of each rank's part of the loss leaves in any element.
        tolerance: the error that differences leave, relative to the largest element.
        is_declared: whether a formula says so, and not differences: then ``table[m, m]`` is the gradient on rank m.
    """

    table: torch.Tensor
    noises: tuple[float, ...]
    tolerance: float
    is_declared: bool = False

    @property
    def noise(self) -> float:
        """The error that rounding leaves in any element."""
        return sum(self.noises)

    def gradient(self, rank: int) -> torch.Tensor:
        """The derivative of the whole loss with respect to the argument: changed on this rank, or on all at once."""
        return self.table[rank if len(self.table) > 1 else 0].sum(0)

    def near(self, actual: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether two gradients are the same, to the accuracy of differences."""
        if actual.numel() == 0:
            return True
        scale = max(float(actual.abs().max()), float(expected.abs().max()))
        return bool((actual - expected).abs().max() <= self.noise + self.tolerance * scale)

    def scaled(self, factor: float) -> Slopes:
        """Those of a multiple of the loss. What is declared is so for the gradients that come in, whatever the loss."""
        if self.is_declared:
            return self
        return replace(self, table=self.table * factor, noises=tuple(one * abs(factor) for one in self.noises))

    def on(self, ranks: Sequence[bool]) -> Slopes:
        """Those of a loss of which some ranks have no part."""
        has_part = torch.tensor(ranks).reshape(1, -1, *[1] * (self.table.dim() - 2))
        noises = tuple(one if has else 0.0 for one, has in zip(self.noises, ranks, strict=True))
        return replace(self, table=self.table.where(has_part, 0), noises=noises)

    def plus(self, other: Slopes) -> Slopes:
        """Those of the sum of two losses."""
        noises = tuple(map(sum, zip(self.noises, other.noises, strict=True)))
        return replace(self, table=self.table + other.table, noises=noises)


def loss_slopes(
    ranks: Ranks,
    run: GroupCall,
    arguments: Sequence[torch.Tensor],
    alone: Sequence[bool],
    losses: Sequence[Cotangents],
    precision: float = DOUBLE,
) -> list[tuple[Slopes | None, ...]]:
    """Differentiate several losses at once with respect to every argument, one element at a time.

    ``slopes.gradient(rank)`` is what this rank returns for an argument of type V, I or P; for one of type R it is what
    the gradients of all ranks add up to. None for an argument that cannot have a gradient.

    Args:
        ranks: the ranks of the group.
        run: the Function.
        arguments: what this rank holds, in double precision, by the types of a signature.
        alone: for each argument, whether to move it on one rank at a time, or on all at once.
        losses: cotangents, in each loss one for each result; this rank's part of the loss is their inner product.
        precision: the machine epsilon that the Function works with.
    """
    if isinstance(run, DeclaredGroupCall):
        return [_declared(ranks, run, arguments, loss, precision) for loss in losses]
    steps = [precision ** (1 / 3) * rms_size(x) if differentiable(x) else 0.0 for x in arguments]
    points = [arguments, *_moved(ranks, arguments, alone, steps)]
    used = sorted({at for loss in losses for at, g in enumerate(loss) if g is not None})
    if not used:
        return [(None,) * len(arguments) for _ in losses]
    seen, weights = [], None
    for point in points:
        results = run(point)
        found = [_read(results[at]) for at in used]
        weights = _weights([[loss[at] for at in used] for loss in losses], found) if weights is None else weights
        seen.append(_parts(weights, _flat(found)))

    def made(told: list[Any]) -> list[tuple[Slopes | None, ...]]:
        every_step = [rank_steps for rank_steps, _ in told]
        values = torch.tensor([rank_seen for _, rank_seen in told], dtype=torch.float64)
        values = values.reshape(ranks.size, len(points), len(losses), 2)
        return [_slopes(ranks, arguments, alone, every_step, values[:, :, at], precision) for at in range(len(losses))]

    return ranks.together([steps, seen], made)


def backward(run: GroupCall, arguments: Sequence[torch.Tensor], cotangents: Cotangents) -> list[torch.Tensor | None]:
    """Compute this rank's gradient of each argument that requires one; None if there is none."""
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in arguments]
    pairs = [
        # A copy, where that lies in memory as it does: some write into what comes in, and the caller goes on with it.
        (result, g.clone() if g.is_contiguous() and g.storage_offset() == 0 else g)
        for result, g in zip(run(inputs), cotangents, strict=True)
        if g is not None and result.requires_grad
    ]
    asked = [x for x in inputs if x.requires_grad]
    if not pairs or not asked:
        return [None] * len(inputs)
    results, given = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(results, asked, given, allow_unused=True))
    return [next(found) if x.requires_grad else None for x in inputs]


def forth_and_back(run: GroupCall, mine: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Gradients of a call, each result with ones for its cotangent."""
    return backward(run, mine, [torch.ones_like(y) if differentiable(y) else None for y in run(mine)])


def _declared(
    ranks: Ranks, run: DeclaredGroupCall, arguments: Sequence[torch.Tensor], cotangents: Cotangents, precision: float
) -> tuple[Slopes | None, ...]:
    """Return the formula's gradients of every rank, each as the gradient of its own loss."""
    found: list[Slopes | None] = []
    everyones = ranks.tensors(run.gradients(arguments, cotangents))
    for at, x in enumerate(arguments):
        said = [rank[at] for rank in everyones]
        known = [gradient for gradient in said if gradient is not None]
        if not differentiable(x) or len(known) < len(said):
            found.append(None)
            continue
        table = torch.zeros(ranks.size, ranks.size, *x.shape, dtype=to_double(x).dtype)
        for rank, gradient in enumerate(known):
            table[rank, rank] = gradient
        found.append(Slopes(table, (0.0,) * ranks.size, curvature(precision), is_declared=True))
    return tuple(found)


def _moved(
    ranks: Ranks, arguments: Sequence[torch.Tensor], alone: Sequence[bool], steps: Sequence[float]
) -> Iterator[Sequence[torch.Tensor]]:
    """Return this rank's tensors at every point, in the order in which :func:`_slopes` reads the losses."""
    for at, (x, step) in enumerate(zip(arguments, steps, strict=True)):
        if not differentiable(x):
            continue
        for mover in range(ranks.size if alone[at] else 1):
            for element in range(x.numel()):
                for unit in _units(x):
                    for change in (step * unit, -step * unit):
                        moves = not alone[at] or mover == ranks.rank
                        yield [*arguments[:at], shifted(x, element, change if moves else 0.0), *arguments[at + 1 :]]


def _slopes(
    ranks: Ranks,
    arguments: Sequence[torch.Tensor],
    alone: Sequence[bool],
    steps: Sequence[Sequence[float]],
    values: torch.Tensor,
    precision: float,
) -> tuple[Slopes | None, ...]:
    """Make slopes of a loss and the size of its terms: ``values[rank, point, 0 and 1]``."""
    sizes, start = values[:, 0, 1].tolist(), 1
    found: list[Slopes | None] = []
    for at, x in enumerate(arguments):
        if not differentiable(x):
            found.append(None)
            continue
        movers = ranks.size if alone[at] else 1
        units = len(_units(x))
        length = movers * x.numel() * units * 2
        pairs = values[:, start : start + length, 0].reshape(ranks.size, movers, x.numel(), units, 2)
        start += length
        step = torch.tensor([steps[mover][at] for mover in range(movers)], dtype=torch.float64)
        table = central(pairs[..., 0], pairs[..., 1], step.reshape(1, -1, 1, 1))
        whole = torch.view_as_complex(table.contiguous()) if units == 2 else table[..., 0]
        table = whole.transpose(0, 1).reshape(movers, ranks.size, *x.shape)
        noises = tuple(4 * precision * size / float(step.min()) for size in sizes)
        found.append(Slopes(table, noises, curvature(precision)))
    return tuple(found)


def _units(x: torch.Tensor) -> tuple[complex, ...]:
    return (1.0, 1.0j) if x.is_complex() else (1.0,)


def _read(tensor: torch.Tensor) -> torch.Tensor:
    """In double precision on the CPU: a device is waited for once, however many numbers are made of it."""
    return to_double(tensor.detach()).cpu()


def _weights(losses: Sequence[Cotangents], results: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a row for each loss: its cotangents one after the other, zeros for results that it does not use."""
    return torch.stack(
        [
            _flat([torch.zeros_like(y) if g is None else _read(g) for g, y in zip(loss, results, strict=True)]).conj()
            for loss in losses
        ]
    )


def _parts(weights: torch.Tensor, result: torch.Tensor) -> list[list[float]]:
    """Compute this rank's part of each loss, and the size of its terms."""
    terms = (weights * result).real.masked_fill(weights == 0, 0)  # whatever a result is that a loss does not use
    found: list[list[float]] = torch.stack([terms.sum(1), terms.abs().sum(1)], 1).tolist()
    return found


def _flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
