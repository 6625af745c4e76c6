"""How MakeViewlessTensor is called; imported only where its tests run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit import Specification, random


def inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield sample arguments for a rank, each with a name."""
    yield "view", (random((4, 3), 400 + rank).view(3, 4), True)
    yield "transposed", (random((2, 3), 410 + rank).t(), True)


specification = Specification(inputs)
