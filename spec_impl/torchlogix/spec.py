"""How GradFactor is called; imported only where its tests run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit import Specification, random


def inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield sample arguments for a rank, each with a name."""
    yield "half", (random((3, 2), 300 + rank), 0.5)
    yield "negative", (random((4,), 310 + rank), -2.0)


specification = Specification(inputs, gradient="spec")
