"""Collectives whose inputs draw other numbers on every rank, in tensors of one shape."""

from __future__ import annotations

import torch

from conformance import GROUP
from tests.correct import collective as right
from tests.correct._collectives import rank_and_size

SPEC = "Collective"


def inputs():
    rank, _ = rank_and_size()
    generator = torch.Generator().manual_seed(740 + rank)
    yield torch.randn(6, 2, dtype=torch.float64, generator=generator, requires_grad=True), GROUP


class Gather(right.RingGather):
    """What a rank holds is its own by its type too."""

    TYPES = "V -> R"


class Split(right.Split):
    """By its type every rank has the same: what the first one draws."""

    TYPES = "I -> V"
