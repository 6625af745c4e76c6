"""MRpro: sparse matrices with their adjoints, and the adjoint of sampling a grid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

for part in ("operators", "data", "utils"):
    bare(enter("mrpro"), f"mrpro.{part}")
for name in ("Rotation", "SpatialDimension"):
    absent(f"mrpro.data.{name}", **{name: list})
absent("mrpro.operators.LinearOperator", LinearOperator=object)
absent("mrpro.utils.reshape", ravel_multi_index=None)
absent("mrpro.utils.slice_profiles", SliceSmoothedRectangular=None)
absent("mrpro.utils.typing", NestedSequence=list)


def _complex(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.complex(random(shape, seed).detach(), random(shape, seed + 1).detach())


def _matrices() -> Iterator[tuple[Any, ...]]:
    for matrix in (random((5, 4), 3).detach(), _complex((5, 4), 4)):
        for x in (random((4, 2), 1), _complex((4, 2), 1).requires_grad_()):
            yield x, matrix, matrix.mH


def _product(function: Any, x: torch.Tensor, matrix: torch.Tensor, adjoint: torch.Tensor) -> Any:
    if not torch.equal(adjoint, matrix.mH):
        raise ValueError("the second matrix is the adjoint of the first")
    return function.apply(x, matrix, adjoint)


def _grids() -> Iterator[tuple[Any, ...]]:
    grid = (0.8 * torch.tanh(random((2, 3, 3, 2), 3).detach())).requires_grad_()
    yield random((2, 2, 3, 3), 1), grid, (2, 2, 4, 5), "bilinear", "zeros", True
    yield random((2, 2, 3, 3), 2), grid.detach(), (2, 2, 4, 5), "bicubic", "border", False


def _sampled(function: Any, *args: Any) -> Any:
    """The image; what comes with it is for backward."""
    return function.apply(*args)[0]


product = Subject("mrpro.operators.SliceProjectionOp:_MatrixMultiplication", inputs=_matrices, call=_product)
adjoint = Subject("mrpro.operators.GridSamplingOp:AdjointGridSample", inputs=_grids, call=_sampled)
