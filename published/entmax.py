"""entmax: sparse relatives of softmax, and a loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("entmax")


_ROWS = [(random((4, 5), 1), -1)]


def _alphas() -> Iterator[tuple[Any, ...]]:
    yield random((4, 5), 1), (1.3 + 0.5 * torch.rand(4, 1, dtype=torch.float64)).requires_grad_()


_NORMMAX = [(random((4, 5), 1), 2)]


def _labelled() -> Iterator[tuple[Any, ...]]:
    yield random((4, 5), 1), torch.tensor([0, 3, 2, 4]), 1.5


sparsemax = Subject("entmax.activations:SparsemaxFunction", inputs=_ROWS)
entmax15 = Subject("entmax.activations:Entmax15Function", inputs=_ROWS)
entmax_bisect = Subject("entmax.root_finding:EntmaxBisectFunction", inputs=_alphas)
normmax_bisect = Subject("entmax.root_finding:NormmaxBisectFunction", inputs=_NORMMAX)
budget_bisect = Subject("entmax.root_finding:BudgetBisectFunction", inputs=_NORMMAX)
