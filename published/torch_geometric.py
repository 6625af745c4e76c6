"""PyTorch Geometric: a sparse cross entropy, and a reversible layer that frees its input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("torch-geometric")


_EDGES = [(random((4, 5), 1), torch.tensor([[0, 0, 1, 2, 3], [0, 1, 2, 0, 4]]), None)]


def _weighted() -> Iterator[tuple[Any, ...]]:
    weights = torch.tensor([1.0, -0.5, 0.3, 2.0, -1.5], dtype=torch.float64)
    yield random((4, 5), 1), torch.tensor([[0, 0, 1, 2, 3], [0, 1, 2, 0, 4]]), weights


sparse_cross_entropy = Subject("torch_geometric.utils.cross_entropy:SparseCrossEntropy", inputs=_EDGES)
sparse_cross_entropy_weighted = Subject("torch_geometric.utils.cross_entropy:SparseCrossEntropy", inputs=_weighted)


def _forth(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def _back(y: torch.Tensor) -> torch.Tensor:
    return (y - 1) / 2


_INVERTIBLE = [(_forth, _back, 1, 1, random((4, 3), 1))]

invertible_no_weights = Subject("torch_geometric.nn.models.rev_gnn:InvertibleFunction", inputs=_INVERTIBLE)


_WITH_WEIGHT = [(random((4, 3), 1), random((3,), 2))]


def _scaled(function: Any, x: torch.Tensor, weight: torch.Tensor) -> Any:
    return function.apply(lambda x: x * weight.exp(), lambda y: y * (-weight).exp(), 1, 1, x, weight)


invertible = Subject("torch_geometric.nn.models.rev_gnn:InvertibleFunction", inputs=_WITH_WEIGHT, call=_scaled)
