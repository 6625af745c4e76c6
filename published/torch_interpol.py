"""torch-interpol: samples of a field, sums into one, and the coefficients of its splines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("torch-interpol"), "interpol")


def _places(shape: tuple[int, ...]) -> torch.Tensor:
    drawn = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return (3.5 * drawn + 0.3).requires_grad_()


def _pulled() -> Iterator[tuple[Any, ...]]:
    yield random((1, 2, 5, 6), 1), _places((1, 3, 2, 2)), 3, 0, True


def _pushed() -> Iterator[tuple[Any, ...]]:
    yield random((1, 2, 3, 2), 1), _places((1, 3, 2, 2)), [5, 6], 2, 1, True


def _counted() -> Iterator[tuple[Any, ...]]:
    yield _places((1, 3, 2, 2)), [5, 6], 3, 1, True


_ALONG = [(random((2, 5, 6), 1), 1, 3, -1, False)]
_ALONG_BOTH = [(random((2, 5, 6), 1), [1, 1], [3, 3], 2, False)]

grid_pull = Subject("interpol.autograd:GridPull", inputs=_pulled)
grid_push = Subject("interpol.autograd:GridPush", inputs=_pushed)
grid_count = Subject("interpol.autograd:GridCount", inputs=_counted)
spline_coeff = Subject("interpol.autograd:SplineCoeff", inputs=_ALONG)
spline_coeff_nd = Subject("interpol.autograd:SplineCoeffND", inputs=_ALONG_BOTH)
