"""Functions that the departures share."""

from __future__ import annotations

from collections.abc import Callable

import torch


def numbers(*shape: int) -> torch.Tensor:
    """1, 2, 3, ... in double precision, requiring grad."""
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=torch.float64).reshape(shape).requires_grad_()


def raises(error: type[Exception], call: Callable[[], object]) -> bool:
    """Whether a call raises the error."""
    try:
        call()
    except error:
        return True
    return False
