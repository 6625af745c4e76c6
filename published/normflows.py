"""normflows: the log-determinant of a residual block, estimated by a power series, whose gradient forward computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("normflows"), "normflows.flows")


class _Block(torch.nn.Module):
    """Two layers and a tanh; the second layer is small, so that the series converges."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(random((3, 4), 1).detach())
        self.second = torch.nn.Parameter(0.2 * random((4, 3), 2).detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.first) @ self.second


def _blocks() -> Iterator[tuple[Any, ...]]:
    """Two points, and the vectors with which traces are estimated."""
    yield _Block(), random((2, 3), 3), random((2, 3), 4).detach()


def _weight(term: int) -> float:
    """Weigh all terms alike, as a series does that is cut after a fixed number of them."""
    return 1.0


def _estimated(function: Any, block: Any, x: torch.Tensor, probes: torch.Tensor) -> Any:
    from normflows.flows.residual import basic_logdet_estimator

    series = (3, probes, _weight)
    return function.apply(basic_logdet_estimator, block, x, *series, True, *block.parameters())


log_determinant = Subject("normflows.flows.residual:MemoryEfficientLogDetEstimator", inputs=_blocks, call=_estimated)
