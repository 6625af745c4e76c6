"""torch.utils.checkpoint: the reentrant form, which computes forward once more in backward."""

from __future__ import annotations

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject


def _wave(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * y


_INPUTS = [(_wave, True, random((4, 3), 1), random((4, 3), 2))]

reentrant = Subject("torch.utils.checkpoint:CheckpointFunction", inputs=_INPUTS)
