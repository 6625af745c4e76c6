"""HypLL: the mean of points of the Poincaré ball."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("hypll"), "hypll.manifolds.poincare_ball.math")


def _points(keepdim: bool) -> Iterator[tuple[Any, ...]]:
    """Three sets of four points each, inside of the ball, and what the curvature is made of."""
    points = (0.2 * random((3, 4, 2), 1)).detach().requires_grad_()
    yield points, torch.tensor(0.1, dtype=torch.float64, requires_grad=True), -1, [1], keepdim


def _curved(function: Any, points: Any, value: Any, *rest: Any) -> Any:
    """The curvature lies between 0.5 and 1.5: the ball has none that is not positive."""
    return function.apply(points, 0.5 + torch.sigmoid(value), *rest)


mean = Subject(
    "hypll.manifolds.poincare_ball.math.stats:FrechetMean", inputs=partial(_points, keepdim=False), call=_curved
)
mean_with_dimension = Subject(
    "hypll.manifolds.poincare_ball.math.stats:FrechetMean", inputs=partial(_points, keepdim=True), call=_curved
)
