"""torchlogix: a gradient that is scaled, and connections that are learned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("torchlogix")

grad_factor = Subject("torchlogix.functional:GradFactor", spec="GradFactor")


def _connections() -> Iterator[tuple[Any, ...]]:
    indices = torch.tensor([0, 2, 1, 3, 2, 0, 3, 1, 0, 1, 2, 3]).view(3, 2, 2)
    yield random((5, 4), 1), random((3, 2, 2), 2), torch.tensor(0.7, dtype=torch.float64), False, indices


def _relaxed(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Forward picks the strongest connection; backward is that of the softmax over all, and of inputs in -1 ... 1."""
    x, weights, tau, _, indices = args
    share = torch.softmax(weights / tau, dim=0)
    of_x = torch.zeros_like(x)
    of_weights = torch.zeros_like(weights)
    for candidate in range(weights.shape[0]):
        chosen = x[:, indices[candidate]]
        of_weights[candidate] = ((2 * chosen - 1) * grads[0]).sum(0)
        of_x.index_add_(1, indices[candidate].flatten(), (share[candidate] * grads[0]).flatten(1))
    return of_x, of_weights


learnable_connection = Subject(
    "torchlogix.connections:LearnableConnectionFunction", inputs=_connections, gradient="declared", formula=_relaxed
)
