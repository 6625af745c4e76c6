"""MemCNN: an additive coupling of two halves, and a checkpoint that computes its input from its output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("memcnn")


def _halves() -> Iterator[tuple[Any, ...]]:
    """Only ``x`` is differentiated: the weights are the modules' own, and copies of them would be others."""
    torch.manual_seed(1)
    first, second = (torch.nn.Conv2d(1, 1, 3, padding=1, dtype=torch.float64) for _ in range(2))
    weights = (weight.detach() for layer in (first, second) for weight in layer.parameters())
    yield random((2, 2, 3, 3), 1), first, second, *weights


additive_block = Subject("memcnn.models.additive:AdditiveBlockFunction", inputs=_halves)
additive_block_2 = Subject("memcnn.models.additive:AdditiveBlockFunction2", inputs=_halves)
additive_inverse = Subject("memcnn.models.additive:AdditiveBlockInverseFunction", inputs=_halves)


def _forth(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def _back(y: torch.Tensor) -> torch.Tensor:
    return (y - 1) / 2


# It casts any dtype to float32.
_SINGLE = [(_forth, _back, True, 1, False, 1, random((4, 3), 1, torch.float32))]

checkpoint = Subject("memcnn.models.revop:InvertibleCheckpointFunction", inputs=_SINGLE)
