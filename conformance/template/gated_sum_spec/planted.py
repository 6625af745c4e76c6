"""Bugs planted to prove that the tests see them: each class names the clause that it breaks."""

from __future__ import annotations

from typing import Any

import torch

from gated_sum_spec.reference import GatedSum


class Multiplied(GatedSum):
    """0 times NaN is NaN.

    Breaks: GatedSum.forward.closed
    """

    @staticmethod
    def forward(x: torch.Tensor, gate: torch.Tensor) -> Any:
        """Multiply by the gate instead of selecting."""
        return (x * gate).sum()
