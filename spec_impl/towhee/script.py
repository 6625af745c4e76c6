"""Stands for a gather whose gradient is the rank's own slice."""

from __future__ import annotations

import types
from collections.abc import Sequence

import torch

from conformance.reproduce.pieces.subject import Function

SIZE = 2
WHAT = "this rank's own rows have"


def entries_of(x: torch.Tensor, rank: int) -> Sequence[torch.Tensor]:
    """The gathered entries, one for each rank."""
    return Function.apply(x, types.SimpleNamespace(world_size=SIZE, local_rank=rank)).chunk(SIZE)


def expected_of(rank: int) -> float:
    """The gradient that must come out."""
    return float(10 * rank + rank + 1)
