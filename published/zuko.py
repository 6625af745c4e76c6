"""Zuko: the inverse of a function, an integral and an adjoint solver, each with the parameters of the function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import apply, random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("zuko"), "zuko")


class _Rising(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight.abs() * x**3 + x


class _Field(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[0.0, 0.6], [-0.9, 0.1]], dtype=torch.float64))

    def forward(self, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight) + 0.3 * t


def _bracket() -> Iterator[tuple[Any, ...]]:
    low = torch.full((4,), -10.0, dtype=torch.float64)
    yield _Rising(), random((4,), 1), low, -low, 60


def _bounds() -> Iterator[tuple[Any, ...]]:
    yield _Rising(), random((4,), 1), random((4,), 2), 5


def _times() -> Iterator[tuple[Any, ...]]:
    begin, end = (torch.tensor(time, dtype=torch.float64, requires_grad=True) for time in (0.1, 0.9))
    yield (1e-9, 1e-9, True), _Field(), random((3, 2), 1), begin, end


def _with_weight(function: Any, *args: Any) -> Any:
    weight = next(arg.weight for arg in args if isinstance(arg, torch.nn.Module))
    return apply(function, *args, weight)


bisection = Subject("zuko.utils:Bisection", inputs=_bracket, call=_with_weight)
gauss_legendre = Subject("zuko.utils:GaussLegendre", inputs=_bounds, call=_with_weight)
adaptive_adjoint = Subject("zuko.utils:AdaptiveCheckpointAdjoint", inputs=_times, call=_with_weight)
