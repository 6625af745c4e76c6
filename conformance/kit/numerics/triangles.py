"""Handle symmetric matrices of which a Function reads one half, as ``torch.linalg.cholesky`` and ``eigh`` do."""

from __future__ import annotations

from itertools import combinations

import torch

from conformance.kit.calls import Run
from conformance.kit.numerics.derivatives import outputs_at
from conformance.kit.numerics.nearby import rms_size
from conformance.kit.tensors import is_strided
from conformance.kit.traits import is_symmetric

#: The largest matrix of which every pair of elements is tried.
LARGEST_BY_PAIRS = 8


def kept_symmetric(run: Run, at: int, direction: torch.Tensor, gradient: torch.Tensor | None) -> torch.Tensor:
    """Return the part of a direction that keeps an input symmetric, if the input represents a symmetric matrix.

    That is so if the input is symmetric, or Hermitian, and forward reads one element of each pair beside the diagonal.
    By PyTorch's convention the gradient is then symmetric, although differences along single elements give one of a
    pair twice the gradient and the other none. A gradient in one triangle follows the differences, and is compared with
    them.
    """
    value = run.sample.values[at].detach()
    if not is_symmetric(value) or gradient is None or _is_triangular(gradient) or not _reads_half(run, at, value):
        return direction
    return (direction + direction.mH) / 2


def _is_triangular(gradient: torch.Tensor) -> bool:
    return is_strided(gradient) and gradient.dim() >= 2 and bool(gradient.triu(1).any() != gradient.tril(-1).any())


def _reads_half(run: Run, at: int, value: torch.Tensor) -> bool:
    """Whether forward ignores one triangle, or one of each pair of elements, as with pivots."""
    beside = torch.ones_like(value) * rms_size(value)
    if _is_unread(run, at, value, beside.triu(1)) or _is_unread(run, at, value, beside.tril(-1)):
        return True
    size = value.shape[-1]
    return size <= LARGEST_BY_PAIRS and all(
        _is_one_unread(run, at, value, beside, *pair) for pair in combinations(range(size), 2)
    )


def _is_one_unread(run: Run, at: int, value: torch.Tensor, beside: torch.Tensor, row: int, column: int) -> bool:
    one = torch.zeros_like(value)
    one[..., row, column] = beside[..., row, column] / 100  # little, so that pivots do not change
    return _is_unread(run, at, value, one) or _is_unread(run, at, value, one.mT)


def _is_unread(run: Run, at: int, value: torch.Tensor, move: torch.Tensor) -> bool:
    """Tell whether results are bitwise the same after such a move of the input."""
    here = outputs_at(run, at, value)
    try:
        there = outputs_at(run, at, value + move)
    except Exception:  # it looks at all of the matrix
        return False
    return all(torch.equal(one, other) for one, other in zip(here, there, strict=True))
