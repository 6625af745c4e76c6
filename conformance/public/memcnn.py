"""MemCNN: an additive coupling of two halves, and a checkpoint that computes its input from its output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.public.packages import enter
from conformance.specs import random
from conformance.subject import Subject

enter("memcnn")


def _weights() -> Iterator[tuple[Any, ...]]:
    yield random((2, 2, 3, 3), 1), *(random((1, 1, 3, 3), seed) for seed in (2, 3))


def _convolution(weight: torch.Tensor) -> torch.nn.Module:
    """The module whose parameter the class gets twice: within the module, and as an input to differentiate."""
    layer = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False, dtype=weight.dtype)
    layer.weight = torch.nn.Parameter(weight.detach())
    return layer


def _coupled(function: Any, x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> Any:
    return function.apply(x, _convolution(first), _convolution(second), first, second)


additive_block = Subject("memcnn.models.additive:AdditiveBlockFunction", inputs=_weights, call=_coupled)
additive_block_2 = Subject("memcnn.models.additive:AdditiveBlockFunction2", inputs=_weights, call=_coupled)
additive_inverse = Subject("memcnn.models.additive:AdditiveBlockInverseFunction", inputs=_weights, call=_coupled)


def _forth(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def _back(y: torch.Tensor) -> torch.Tensor:
    return (y - 1) / 2


def _single() -> Iterator[tuple[Any, ...]]:
    # It casts to float32 whatever it gets.
    yield _forth, _back, True, 1, False, 1, random((4, 3), 1, torch.float32)


checkpoint = Subject("memcnn.models.revop:InvertibleCheckpointFunction", inputs=_single)
