"""What a GatedSum must do, besides what every Function must do."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import cases, clause, expect


@clause("GatedSum.forward.closed")
@cases(hidden=["nan", "inf", "-inf"])
def test_what_a_closed_gate_hides_adds_nothing(subject: Any, hidden: str) -> None:
    x = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    x[1] = float(hidden)
    actual = subject(x, torch.tensor([True, False, True]))
    expect.equal(actual, torch.tensor(3.0, dtype=torch.float64), f"the sum of 1 and 2, {hidden} behind a closed gate")
