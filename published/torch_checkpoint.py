"""torch.utils.checkpoint: the reentrant form, which computes forward once more in backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject


def _wave(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * y


def _inputs() -> Iterator[tuple[Any, ...]]:
    yield _wave, True, random((4, 3), 1), random((4, 3), 2)


reentrant = Subject("torch.utils.checkpoint:CheckpointFunction", inputs=_inputs)
