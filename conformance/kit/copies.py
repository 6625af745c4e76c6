"""Copies of tensors, laid out in memory as others are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from conformance.kit.tensors import differentiable, double_dtype, is_strided, shares_elements, with_attributes

#: Has an entry while calls get leaves.
_LEAVES_ALONE: list[bool] = []


@contextmanager
def as_leaves() -> Iterator[None]:
    """Have calls in the block get the leaves themselves, as no model's inner layers do."""
    _LEAVES_ALONE.append(True)
    try:
        yield
    finally:
        _LEAVES_ALONE.pop()


def in_layout_of(output: torch.Tensor, cotangent: torch.Tensor) -> torch.Tensor:
    """Make a gradient for an output, sparse if the output is."""
    return cotangent if is_strided(output) else cotangent.to_sparse(layout=output.layout)


def given_copy(cotangent: torch.Tensor) -> torch.Tensor:
    """Return a gradient as a caller may pass it, so that a change in place changes a copy.

    Only a gradient with a special layout is passed itself.
    """
    plain = not is_strided(cotangent) or (cotangent.is_contiguous() and cotangent.storage_offset() == 0)
    return cotangent.clone() if plain and not cotangent.requires_grad else cotangent


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in double precision, in the same layout."""
    if not differentiable(tensor):
        return tensor
    return _laid_out(tensor.detach(), tensor, double_dtype(tensor.dtype))


def argument_copy(value: Any, leaf: torch.Tensor | None) -> Any:
    """Return the argument that replaces a value in a call, given the leaf that gets its gradient."""
    if not isinstance(value, torch.Tensor):
        return value
    if leaf is not None and _LEAVES_ALONE:
        return leaf
    # Never a leaf: a leaf that requires grad cannot be changed in place, and some Functions do that.
    copy = _laid_out(value.detach() if leaf is None else leaf, value, value.dtype)
    # A view stays a view: some Functions are about views.
    return with_attributes(copy if value._base is None else copy.view_as(copy), value)


def _laid_out(source: torch.Tensor, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A differentiable copy of ``source`` with the strides of ``like``."""
    if not is_strided(like):
        return source.to(dtype) if source.dtype != dtype else source.clone()
    if source.dtype == dtype and source.stride() == like.stride():
        copy = source.clone()  # unlike copy_, it lets a sparse gradient through
        if copy.stride() == like.stride():
            return copy
    if shares_elements(like):
        return source.to(dtype, copy=True)
    empty = torch.empty_strided(like.shape, like.stride(), dtype=dtype, device=like.device)
    return empty.copy_(source)
