"""CompressAI: a lower bound whose gradient lets x come back."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("compressai"), "compressai.ops")

_BOUND = torch.tensor([0.2], dtype=torch.float64)


def _towards(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Below the bound, the gradient passes if it moves x up."""
    x, bound = args
    return (grads[0] * ((x >= bound) | (grads[0] < 0)),)


lower_bound = Subject("compressai.ops.bound_ops:LowerBoundFunction", inputs=drawn((4, 3), _BOUND), formula=_towards)
