"""Stands for ``script.py`` of the spec of a gather: a script has its size and its class in this place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.reproduce.pieces.subject import Function

SIZE = 2
WHAT = "what is expected is"


def entries_of(x: torch.Tensor, rank: int) -> Sequence[torch.Tensor]:
    """The gathered entries, one for each rank."""
    return Function.apply(x)


def expected_of(rank: int) -> float:
    """The gradient that must come out."""
    raise NotImplementedError
