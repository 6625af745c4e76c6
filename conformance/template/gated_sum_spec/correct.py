"""Correct implementations: the tests must accuse none of them."""

from __future__ import annotations

from typing import Any

import torch

from gated_sum_spec.reference import GatedSum


class Indexed(GatedSum):
    """Selects the open elements instead of masking the others."""

    @staticmethod
    def forward(x: torch.Tensor, gate: torch.Tensor) -> Any:
        """Return the sum of the open elements."""
        return x[gate].sum()
