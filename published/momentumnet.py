"""MomentumNet: a chain of layers that backward runs in reverse, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("momentumnet"), "momentumnet")


class _Layer(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(0.3 * random((3, 3), seed).detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight)


def _chain() -> Iterator[tuple[Any, ...]]:
    yield random((4, 3), 1), random((4, 3), 2), 0.9, (_Layer(1), _Layer(2))


def _with_weights(function: Any, x: Any, v: Any, gamma: Any, layers: Any) -> Any:
    return function.apply(x, v, gamma, layers, None, True, 0, *(layer.weight for layer in layers))


momentum = Subject("momentumnet.momentum_net:MomentumTransformMemory", inputs=_chain, call=_with_weights)
