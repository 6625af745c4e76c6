"""How GatedSum is called; imported only where its tests run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit import Specification, random


def inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield sample arguments for a rank of a world of this size, each with a name."""
    gate = torch.tensor([[True, False, True], [False, True, True]])
    yield "a matrix", (random((2, 3), 100 + rank), gate)
    yield "all closed", (random((2, 3), 200 + rank), torch.zeros(2, 3, dtype=torch.bool))


specification = Specification(inputs)
