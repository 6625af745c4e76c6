"""qpth: the solution of a quadratic program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("qpth"), "qpth.solvers.pdipm")
absent("qpth.solvers.cvxpy")


def _programs() -> Iterator[tuple[Any, ...]]:
    """Two problems with one matrix and two bounds, one of which is active."""
    bounds = random((2, 2), 3).detach(), torch.tensor([0.1, 3.0], dtype=torch.float64)
    yield random((2, 2), 1), random((2, 2), 2), *bounds


def _solved(target: Any, factor: Any, linear: Any, *bounds: Any) -> Any:
    """The matrix of the problem is positive definite, and there are no equations."""
    quadratic = factor @ factor.mT + torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    nothing = factor.new_empty(0)
    return target(verbose=-1)(quadratic, linear, *bounds, nothing, nothing)


solution = Subject("qpth.qp:QPFunction", inputs=_programs, call=_solved)
