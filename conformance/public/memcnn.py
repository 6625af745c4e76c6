"""MemCNN: additive coupling, with and without what it computes being kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.public.packages import enter
from conformance.specs import random
from conformance.subject import Subject

enter("memcnn")


def _halves() -> Iterator[tuple[Any, ...]]:
    torch.manual_seed(1)
    first, second = (torch.nn.Conv2d(1, 1, 3, padding=1, dtype=torch.float64) for _ in range(2))
    yield random((2, 2, 3, 3), 1), first, second, *first.parameters(), *second.parameters()


additive_block = Subject("memcnn.models.additive:AdditiveBlockFunction", inputs=_halves, call=None)
