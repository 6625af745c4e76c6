"""UMNN: integrals of a network, whose gradients are those of the integral."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("umnn"), "UMNN")


class _Integrand(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(random((2, 2), 8).detach())

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x + h @ self.weight)


def _both_ends() -> Iterator[tuple[Any, ...]]:
    yield random((3, 2), 1), random((3, 2), 2), _Integrand(), random((3, 2), 3)


def _integral(function: Any, x0: Any, x: Any, integrand: Any, h: Any) -> Any:
    return function.apply(x0, x, integrand, integrand.weight.reshape(-1), h, 30)


one_by_one = Subject("UMNN.NeuralIntegral:NeuralIntegral", inputs=_both_ends, call=_integral)
parallel = Subject("UMNN.ParallelNeuralIntegral:ParallelNeuralIntegral", inputs=_both_ends, call=_integral)
