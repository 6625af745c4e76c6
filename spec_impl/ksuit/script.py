"""Stands for a gather whose gradient is the sum over ranks: a script has its size and its class in this place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.reproduce.pieces.subject import Function

SIZE = 2
WHAT = "the sum over all ranks is"


def entries_of(x: torch.Tensor, rank: int) -> Sequence[torch.Tensor]:
    """The gathered entries, one for each rank."""
    return Function.apply(x)


def expected_of(rank: int) -> float:
    """The gradient that must come out."""
    return float(sum(10 * r + rank + 1 for r in range(SIZE)))
