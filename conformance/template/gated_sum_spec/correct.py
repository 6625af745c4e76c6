"""Ways to write it that are right: the tests must accuse none of them."""

from __future__ import annotations

from typing import Any

import torch

from gated_sum_spec.reference import GatedSum


class Indexed(GatedSum):
    """It picks the open elements instead of hiding the others."""

    @staticmethod
    def forward(x: torch.Tensor, gate: torch.Tensor) -> Any:
        """Add up what is open."""
        return x[gate].sum()
