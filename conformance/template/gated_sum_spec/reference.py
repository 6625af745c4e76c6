"""GatedSum as documented, with its clauses, which are read without importing this file."""

from __future__ import annotations

from typing import Any

import torch

SPEC = "GatedSum"
#: The documents that clauses quote, by letters other than C and X: a title, and an address or "".
DOCUMENTS = {"D": ("GatedSum: its documentation", "https://example.org/gated-sum")}


class GatedSum(torch.autograd.Function):
    """Add up the elements of a tensor whose gate is open."""

    @staticmethod
    def forward(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """Return the sum.

        Args:
            x: Any shape; floating point.
            gate: Booleans, in the shape of ``x``.

        .. clause:: GatedSum.forward.closed
           :level: must
           :sources: D "elements behind a closed gate are ignored"

           An element whose gate is closed adds nothing to the sum, even if it is infinite or NaN.
        """
        return torch.where(gate, x, 0).sum()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:
        """Keep the gate."""
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of ``x``: zero behind a closed gate."""
        (gate,) = ctx.saved_tensors
        return torch.where(gate, grad, 0), None
