"""Central differences, and their extrapolation to a step of zero."""

from __future__ import annotations

from collections.abc import Callable

import torch

Vector = torch.Tensor


def central(function: Callable[[Vector], Vector], ahead: Vector, behind: Vector) -> Vector:
    """Compute how much a function changes between two points on either side of a third."""
    return function(ahead) - function(behind)


def extrapolated(rows: torch.Tensor, ratio: float, order: int) -> torch.Tensor:
    """Central differences by steps each ``ratio`` times the one before, along the last dimension, after Richardson.

    The error of a central difference is a power series in the square of its step; each order takes one power away.

    >>> steps = torch.tensor([0.4, 0.2, 0.1], dtype=torch.float64)
    >>> slopes = ((1 + steps).exp() - (1 - steps).exp()) / (2 * steps)
    >>> [f"{abs(float(extrapolated(slopes, 0.5, order)[-1]) / torch.e - 1):.0e}" for order in (0, 1, 2)]
    ['2e-03', '3e-06', '1e-08']
    """
    square = ratio**2
    for power in range(1, order + 1):
        rows = (rows[..., 1:] - square**power * rows[..., :-1]) / (1 - square**power)
    return rows
