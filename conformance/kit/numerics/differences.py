"""Central differences, and their extrapolation to a step of zero: every derivative by differences uses these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from conformance.kit import tolerances

Number = TypeVar("Number", float, torch.Tensor)


def central(ahead: Number, behind: Number, step: Number | float) -> Number:
    """Compute the slope between a function's values a step ahead and a step behind.

    >>> central(1.5**2, 0.5**2, 0.5)
    2.0
    """
    return (ahead - behind) / (2 * step)


def extrapolated(rows: torch.Tensor, ratio: float, order: int) -> torch.Tensor:
    """Extrapolate central differences to a step of zero, by Richardson's method along the last dimension.

    Each step is ``ratio`` times the one before. The error is a power series in the square of the step, and each order
    removes one power.

    >>> steps = torch.tensor([0.4, 0.2, 0.1], dtype=torch.float64)
    >>> slopes = central((1 + steps).exp(), (1 - steps).exp(), steps)
    >>> [f"{abs(float(extrapolated(slopes, 0.5, order)[-1]) / torch.e - 1):.0e}" for order in (0, 1, 2)]
    ['2e-03', '3e-06', '1e-08']
    """
    square = ratio**2
    for power in range(1, order + 1):
        rows = (rows[..., 1:] - square**power * rows[..., :-1]) / (1 - square**power)
    return rows


def beside_jumps(behind: torch.Tensor, here: torch.Tensor, ahead: torch.Tensor) -> torch.Tensor:
    """Return how much each number changes over a short step to one side, the one on which it does not jump.

    >>> beside_jumps(torch.tensor([1.0, 1.0]), torch.tensor([1.1, 1.1]), torch.tensor([1.2, 9.0]))
    tensor([0.1000, 0.1000])
    """
    to_one_side, to_the_other = ahead - here, here - behind
    return torch.where(to_one_side.abs() < to_the_other.abs(), to_one_side, to_the_other)


def stops_early(gap: Callable[[float], float], deviation: float) -> bool:
    """Tell whether short steps disagree, and a longer one shows what backward claims.

    Forward rounds then, or is a solver that stops within a tolerance, which leaves more than short steps change.

    Args:
        gap: the slope over a step, less what backward claims.
        deviation: how far they are apart, as it was measured.

    >>> def stops(step):  # the slope is 2; what is left of a search moves numbers by 1e-5
    ...     return 2 + 1e-5 / step - claimed
    >>> claimed = 2
    >>> stops_early(stops, 0.1)
    True
    >>> claimed = 1
    >>> stops_early(stops, 1.1)
    False
    """
    short, middle = map(gap, tolerances.SHORT_STEPS)
    left = min(abs(gap(step)) for step in tolerances.LONG_STEPS)
    return tolerances.CLEARLY * abs(short - middle) > deviation > tolerances.CLEARLY * left


def shifted(x: torch.Tensor, element: int, change: complex) -> torch.Tensor:
    """Return a tensor with one element changed; it requires grad as before, since a Function may depend on that."""
    moved = x.detach().clone(memory_format=torch.contiguous_format)
    moved.view(-1)[element] += change
    return moved.requires_grad_(x.requires_grad)
