"""linear_operator: products, solves and factors of matrices that are given as operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import enter

enter("linear-operator")


def _matrix() -> torch.Tensor:
    root = random((4, 4), 1).detach()
    return (root @ root.mT + 4 * torch.eye(4, dtype=torch.float64)).requires_grad_()


def _tree() -> Any:
    """How the package makes an operator of a matrix again."""
    from linear_operator.operators import DenseLinearOperator

    return DenseLinearOperator(torch.eye(4, dtype=torch.float64)).representation_tree()


def _right_side() -> Iterator[tuple[Any, ...]]:
    yield _tree(), random((4, 2), 2), _matrix()


def _only_right_side() -> Iterator[tuple[Any, ...]]:
    yield _tree(), False, random((4, 2), 2), _matrix()


def _rank() -> Iterator[tuple[Any, ...]]:
    yield _tree(), 3, None, _matrix()


def _sparse() -> Iterator[tuple[Any, ...]]:
    matrix = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]], dtype=torch.float64)
    yield matrix.to_sparse().coalesce(), random((3, 2), 2)


matmul = Subject("linear_operator.functions._matmul:Matmul", inputs=_right_side)
inv_quad = Subject("linear_operator.functions._inv_quad:InvQuad", inputs=_right_side)
solve = Subject("linear_operator.functions._solve:Solve", inputs=_only_right_side)
pivoted_cholesky = Subject("linear_operator.functions._pivoted_cholesky:PivotedCholesky", inputs=_rank)
dsmm = Subject("linear_operator.functions._dsmm:DSMM", inputs=_sparse)
