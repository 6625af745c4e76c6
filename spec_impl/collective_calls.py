"""Code shared by the reference collectives: moving data, and :func:`torch.vmap`.

The functions in the first half move data between ranks; nothing there is differentiated. Every result is contiguous
and has its own memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from spec_impl import exchange
from spec_impl.exchange import untraced


@untraced
def summed(x: torch.Tensor, group: Any) -> torch.Tensor:
    """Return the sum of every rank's ``x``, the same bits on every rank.

    Raises:
        ValueError: on every rank, if shapes or dtypes differ.
    """
    total = _agreed(_packed(x), group)
    dist.all_reduce(total, group=group)
    return total


@untraced
def from_source(x: torch.Tensor, source: int, group: Any) -> torch.Tensor:
    """Return rank ``source``'s ``x``.

    Raises:
        ValueError: on every rank, if shapes or dtypes differ or there is no such rank.
    """
    received = _agreed(_packed(x), group)
    dist.broadcast(_raw(received), group=group, group_src=_within(group, source))
    return received


@untraced
def to_source(x: torch.Tensor, source: int, group: Any) -> torch.Tensor:
    """Return the sum of every rank's ``x`` on rank ``source``, and zeros on the others.

    Raises:
        ValueError: on every rank, if shapes or dtypes differ or there is no such rank.
    """
    total = _agreed(_packed(x), group)
    dist.reduce(total, group=group, group_dst=_within(group, source))
    return total if exchange.place(group)[0] == source else total.zero_()


def own_rows(x: torch.Tensor, group: Any) -> torch.Tensor:
    """Return this rank's part of the rows of ``x``; nothing is sent.

    Raises:
        ValueError: ``x`` has no rows, or they cannot be divided evenly.
    """
    rank, size = exchange.place(group)
    rows = _rows_for_each(x, size)
    return _packed(x.narrow(0, rank * rows, rows))


@untraced
def joined_rows(x: torch.Tensor, group: Any) -> torch.Tensor:
    """Return the rows of every rank's ``x``, rank 0's first.

    Raises:
        ValueError: on every rank, if shapes or dtypes differ or ``x`` has no rows.
    """
    own = exchange.dense(x)
    starts = exchange.agree(own, group)
    joined = x.new_empty((len(starts) * _rows(x.shape), *x.shape[1:]))
    exchange.gather_into(joined.view(len(starts), *x.shape).unbind(), own, starts, group)
    return joined


@untraced
def summed_rows(x: torch.Tensor, group: Any) -> torch.Tensor:
    """Return this rank's part of the rows of the sum of every rank's ``x``.

    Raises:
        ValueError: on every rank, if shapes or dtypes differ, ``x`` has no rows, or they cannot be divided evenly.
    """
    parts = _parts(x, group)
    return exchange.sum_parts(parts.unbind(), group)


@untraced
def traded_rows(x: torch.Tensor, group: Any) -> torch.Tensor:
    """Return on rank *r* part *r* of the rows of every rank's ``x``, rank 0's first.

    Raises:
        ValueError: as :func:`summed_rows`.
    """
    parts = _parts(x, group)
    received = torch.empty_like(parts)
    dist.all_to_all_single(_raw(received), _raw(parts), group=group)
    return received.view(x.shape)


class SeparateForm(torch.autograd.Function):
    """The base of the separate forms: stores the group and an anchor on ctx.

    The anchor is a tensor without elements that :func:`torch.vmap` maps if it maps ``x``. A gradient or tangent may be
    the same for all samples on this rank, but not on others. Joined to the anchor, it has all samples on every rank.
    """

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Store the arguments after ``x``, and the anchor."""
        x, *ctx.rest = inputs
        anchor = x.new_empty(0)
        ctx.save_for_backward(anchor)
        ctx.save_for_forward(anchor)


def anchored(ctx: Any, value: torch.Tensor) -> torch.Tensor:
    """Return a gradient or tangent that vmap maps if it maps the argument of the call."""
    (anchor,) = ctx.saved_tensors
    return torch.cat([value.reshape(-1), anchor]).reshape(value.shape)


def mapped(function: Any, x: torch.Tensor, dim: int | None, *rest: Any) -> tuple[torch.Tensor, int]:
    """Apply a Function to all samples at once, as the last dimension: it works along the first dimension or none."""
    assert dim is not None, "x is the only tensor, so vmap maps it"
    y = function.apply(x.movedim(dim, -1), *rest)
    return y, y.dim() - 1


def mapped_rows(function: Any, x: torch.Tensor, dim: int | None, group: Any) -> tuple[torch.Tensor, int]:
    """Do the same for a Function that needs rows, which must not be taken from the samples."""
    _rows(x.shape[1:])  # raises if a sample has none
    return mapped(function, x, dim, group)


def _packed(x: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy: backends read and write memory in order, whatever the strides."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)


def _agreed(own: torch.Tensor, group: Any) -> torch.Tensor:
    exchange.agree(own, group)
    return own


def _raw(x: torch.Tensor) -> torch.Tensor:
    """View a contiguous tensor as bytes: backends support fewer dtypes than PyTorch."""
    return x.view(-1).view(torch.uint8)


def _parts(x: torch.Tensor, group: Any) -> torch.Tensor:
    """Return the rows of ``x``, contiguous, with a first dimension that counts the ranks they are sent to."""
    _, size = exchange.place(group)
    own = _agreed(exchange.dense(x), group)
    return own.view(size, _rows_for_each(x, size), *x.shape[1:])


def _rows(shape: Sequence[int]) -> int:
    if not shape:
        raise ValueError("a 0-d tensor has no rows; give it a dimension 0 with unsqueeze(0)")
    return shape[0]


def _rows_for_each(x: torch.Tensor, size: int) -> int:
    rows = _rows(x.shape)
    if rows % size:
        raise ValueError(f"{rows} rows cannot be divided evenly among {size} ranks")
    return rows // size


def _within(group: Any, source: int) -> int:
    """Return ``source`` if it is a rank within the group, or raise ValueError."""
    _, size = exchange.place(group)
    if not 0 <= source < size:
        raise ValueError(f"source {source} is not a rank within a process group of {size}: they are 0 to {size - 1}")
    return source
