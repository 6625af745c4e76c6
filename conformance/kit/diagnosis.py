"""Likely causes: the mistake that leads from the expected value to the actual one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.kit.tensors import to_double


def likely_cause(actual: Any, expected: Any, alternatives: Mapping[str, Any]) -> str:
    """Name the mistake, or give an empty string where the values do not tell.

    Args:
        actual: the wrong tensor.
        expected: the right tensor, of the same shape.
        alternatives: wrong values that a test can foresee, by the mistake that leads to them; they are tried first.

    >>> likely_cause(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]), {})
    'the right value times 0.5'
    >>> sliced = torch.tensor([1.0, 2.0])
    >>> likely_cause(sliced, torch.tensor([3.0, 5.0]), {"slice instead of sum": sliced})
    'slice instead of sum'
    """
    if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return ""
    if actual.shape != expected.shape or actual.numel() == 0:
        return ""
    one, other = _wide(actual), _wide(expected)
    for name, wrong in alternatives.items():
        if isinstance(wrong, torch.Tensor) and wrong.shape == actual.shape and _near(one, _wide(wrong)):
            return name
    return _generic(one, other, actual.dtype)


def _generic(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> str:
    """A mistake that the numbers alone show: what explains them best comes first."""
    if not bool(torch.isfinite(actual.abs()).all()):
        return "not a number or infinite"
    if _near(actual, expected):
        return f"right to five digits{_rounding(actual, expected, dtype, torch.float32)}"
    if bool((actual == 0).all()):
        return "all zeros" if bool((expected != 0).any()) else ""
    if _near(actual, -expected):
        return "the sign is wrong"
    if _near(actual, expected.conj()):
        return "a complex conjugate is missing, or one too many"
    factor = _factor(actual, expected)
    if factor:
        return f"the right value times {factor}"
    if _is_matrix(expected) and _near(actual, expected.mT):
        return "transposed"
    if _is_symmetric_part(actual, expected):
        return (
            "the symmetric part of the expected value: if the matrix is meant to be symmetric, symmetrize it in call="
        )
    moved = _moved(actual, expected)
    if moved:
        return moved
    if torch.allclose(actual, expected, rtol=1e-2, atol=1e-3):
        rounding = _rounding(actual, expected, dtype, torch.bfloat16, torch.float16)  # what fits the first may fit both
        return f"right to a few digits{rounding}" if rounding else ""
    return ""


def _rounding(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, *narrower: torch.dtype) -> str:
    """Name the dtype, narrower than their own, that all numbers were rounded to: the right ones do not fit into it."""
    for kind in narrower:
        is_told = dtype.itemsize > kind.itemsize * (2 if dtype.is_complex else 1)
        if is_told and _fits(actual, kind) and not _fits(expected, kind):
            return f": {str(kind).removeprefix('torch.')} on the way"
    return ""


def _fits(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    parts = torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor
    return bool((parts == parts.to(dtype)).all())


def _factor(actual: torch.Tensor, expected: torch.Tensor) -> str:
    at = int(expected.abs().argmax())
    base = expected.reshape(-1)[at]
    if base == 0:
        return ""
    factor = actual.reshape(-1)[at] / base
    told = bool((expected != 0).sum() > 1) and _near(actual, factor * expected)
    return f"{factor.item():.6g}" if told and _is_telling(factor) else ""


def _is_telling(factor: torch.Tensor) -> bool:
    """Whether a factor is a whole number or one over it: any other number says nothing about its cause."""
    if factor.is_complex():
        factor = factor.real if factor.imag.abs() <= 1e-5 * factor.abs() else torch.zeros(())
    sizes = (factor.abs(), 1 / factor.abs())
    return any(bool((size - size.round()).abs() <= 1e-5 * size) and 1 < size < 1e6 for size in sizes)


def _is_symmetric_part(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return _is_matrix(expected) and _near(actual, (expected + expected.mH) / 2)


def _is_matrix(tensor: torch.Tensor) -> bool:
    return tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2]


def _moved(actual: torch.Tensor, expected: torch.Tensor) -> str:
    """How entries are out of place along a dimension, where all of them are."""
    for dim, size in enumerate(expected.shape):
        along = f" along dimension {dim}" if expected.dim() > 1 else ""
        if size <= 64 and any(_near(actual, expected.roll(step, dim)) for step in range(1, size)):
            return f"shifted by one or more entries{along}"
        if _near(actual, expected.flip(dim)):
            return f"in reverse order{along}"
    return ""


def _wide(value: torch.Tensor) -> torch.Tensor:
    return to_double(value.detach().cpu())


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    kind = torch.promote_types(one.dtype, other.dtype)
    largest = float(torch.nan_to_num(other.abs()).max())
    return bool(torch.allclose(one.to(kind), other.to(kind), rtol=1e-5, atol=1e-8 * largest))
