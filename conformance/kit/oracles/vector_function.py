"""A call as a function of one of its inputs, over real vectors in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from conformance.kit.numerics.differences import central

Vector = torch.Tensor


@dataclass
class VectorFunction:
    """Maps ``x`` to ``forward(x)``, and ``(x, g)`` to ``backward(x, g)``, all as real vectors in double precision.

    Complex numbers are pairs of real ones, which fits PyTorch's convention for gradients.
    """

    value: Vector
    forward: Callable[[Vector], Vector]
    backward: Callable[[Vector, Vector], Vector]
    #: A vector as the input, or an incoming gradient, holds it: rounded to its dtype, symmetric if it has to be.
    rounded: Callable[[Vector], Vector]
    rounded_cotangent: Callable[[Vector], Vector]
    #: The coarsest machine epsilon of the input and the results.
    of_dtypes: float
    #: The same of what is computed between them.
    epsilon: float
    #: The part of a direction that leaves the value what it is: a symmetric matrix.
    kept: Callable[[Vector], Vector] = field(default=torch.clone)
    calls: int = field(default=0)

    def __call__(self, x: Vector) -> Vector:
        """Compute the results at ``x``.

        Raises:
            ValueError: they are not finite, or not as many as for the value itself.
        """
        self.calls += 1
        return _finite(self.forward(x))

    def gradient(self, x: Vector, g: Vector) -> Vector:
        """Compute the gradient at ``x`` for the incoming gradient ``g``."""
        self.calls += 1
        return _finite(self.backward(x, g))

    def slopes(self, x: Vector, direction: Vector, step: float) -> tuple[Vector, Vector]:
        """Compute central differences along a direction: of ``x`` itself, as it is rounded, and of the results."""
        ahead, behind = (self.rounded(x + sign * step * direction) for sign in (1, -1))
        return central(ahead, behind, step), central(self(ahead), self(behind), step)

    @property
    def size(self) -> float:
        """Return the root mean square of the input, or 1 if it is zero or not finite."""
        found = rms(self.value)
        return found if 1e-30 < found < 1e30 else 1.0


def normal_like(like: Vector, generator: torch.Generator) -> Vector:
    """Draw normally distributed numbers on the CPU, whatever the default device."""
    return torch.randn(like.shape, generator=generator, dtype=torch.float64, device="cpu")


def numbers(values: Iterable[Any]) -> torch.Tensor:
    """Make a vector or matrix in double precision on the CPU."""
    return torch.tensor(list(values), dtype=torch.float64, device="cpu")


def rms(vector: Vector) -> float:
    """Return the root mean square.

    >>> rms(torch.tensor([3.0, 4.0, 0.0, 0.0]))
    2.5
    """
    return float(vector.square().mean().sqrt()) if vector.numel() else 0.0


def _finite(vector: Vector) -> Vector:
    if not bool(vector.isfinite().all()):
        raise ValueError("a number that is not finite")
    return vector
