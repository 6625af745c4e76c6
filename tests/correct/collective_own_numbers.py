"""Correct collectives whose inputs have the same shape and different values on every rank."""

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
    """Gathers tensors that differ between ranks, as their type says."""

    TYPES = "V -> R"


class Split(right.Split):
    """Returns this rank's rows of a tensor that must be the same on every rank, although each rank draws its own."""

    TYPES = "I -> V"
