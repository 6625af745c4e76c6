"""Decide what a sample means, and derive samples with the same meaning. This is the only place that does so.

A permutation stays a permutation, unique indices stay unique, sorted numbers sorted, lengths keep what they sum to, a
mask keeps its kind, a symmetric matrix its symmetry, and the matrix of a least squares problem its rank. A Function may
rely on any of these without checking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import torch

from conformance.kit.calls import SampleCall
from conformance.kit.tensors import differentiable, is_arrangeable
from conformance.kit.traits import ORDERED, Trait, has_independent_columns, missing_traits, traits
from conformance.kit.variations.words import mentioned_by

#: Its solver adds up in another order at another address, which decides the rank of a matrix that lost it.
OF_LEAST_SQUARES = "lstsq"


def meant(sample: SampleCall, candidates: Mapping[int, torch.Tensor | Sequence[torch.Tensor]]) -> SampleCall | None:
    """Return the sample with other tensors in some places if its meaning stays the same, otherwise None.

    Of several candidates for a place, the first that keeps its meaning is taken.
    """
    made: dict[int, torch.Tensor] = {}
    # Indices and lengths come last: they follow the sizes of the others.
    for at in sorted(candidates, key=lambda at: not differentiable(sample.values[at])):
        given = candidates[at]
        for candidate in [given] if isinstance(given, torch.Tensor) else given:
            if _stays(sample, sample.having({**made, at: candidate}), at):
                made[at] = candidate
                break
        else:
            return None
    found = sample.having(made)
    return found if _is_whole(sample, found) else None


def _stays(sample: SampleCall, other: SampleCall, at: int) -> bool:
    """Whether the tensor in one place keeps its traits, and still sums to, or ends at, the size of a dimension."""
    before, after = sample.values[at], other.values[at]
    if OF_LEAST_SQUARES in mentioned_by(sample.subject.target).members and _loses_rank(before, after):
        return False
    missing = missing_traits(before.detach(), after.detach(), constant=at not in sample.active)
    if not keeps_pairs(sample, other, at):
        return False
    if not _is_row_of_whole(before):
        return not missing
    numbers, own, sizes = before.tolist(), traits(before), _sizes(sample)
    if ("is a permutation", 0) not in own and min(numbers) >= 0 and sum(numbers) in sizes:  # lengths of parts
        chance = {name for name, _ in missing} <= {*ORDERED}  # unique ones may be indices that add up by chance
        return chance and _is_size_kept(sample, other, sum(numbers), int(after.sum()))
    if numbers == sorted(numbers) and numbers[0] == 0 and any(dim == 0 for _, dim in sizes.get(numbers[-1], ())):
        return not missing and _is_size_kept(sample, other, numbers[-1], int(after.max()) if len(after) else 0)
    return not missing


def keeps_pairs(sample: SampleCall, other: SampleCall, at: int) -> bool:
    """Whether indices that together with others name each place once, as row and column do, still do in a sample."""
    rows = [place for place, one in enumerate(sample.values) if _is_row_of_whole(one)]
    for first in rows if at in rows else ():
        length = len(sample.values[first])
        group = [place for place in rows if _along(sample.values[place], length) is not None]
        if at in group and _name_each_once(sample, group, first) and _name_each_once(other, group, first) is False:
            return False
    return True


def _name_each_once(sample: SampleCall, group: Sequence[int], first: int) -> bool | None:
    """Whether no two columns of several rows are the same; None of one row, and if they are not equally long."""
    length = len(sample.values[first])
    rows = [row for place in group if (row := _along(sample.values[place], length)) is not None]
    return torch.stack(rows).unique(dim=1).shape[1] == length if len(rows) == len(group) > 1 else None


def _along(row: torch.Tensor, length: int) -> torch.Tensor | None:
    """Return whole numbers for each of so many elements; of offsets that end there, the number of the part."""
    if len(row) == length:
        return row.long()
    lengths = row.diff()
    is_offsets = len(row) > 1 and int(row[0]) == 0 and int(row[-1]) == length and bool((lengths >= 0).all())
    return torch.arange(len(lengths), device=row.device).repeat_interleave(lengths) if is_offsets else None


def _loses_rank(before: torch.Tensor, after: torch.Tensor) -> bool:
    if not (is_arrangeable(before) and before.numel() and after.numel()):
        return False
    return has_independent_columns(before) and not has_independent_columns(after)


def _is_whole(sample: SampleCall, other: SampleCall) -> bool:
    """Whether the joint meaning of several values is kept: lengths in a list, and indices that name each row once."""
    for _, group in groupby(range(len(sample.values)), key=lambda at: sample.arguments_of[at]):
        places = [at for at in group if type(sample.values[at]) is int and at not in sample.top]
        total = sum(sample.values[at] for at in places)
        if len(places) > 1 and total in _sizes(sample) and not _is_size_kept(sample, other, total, total):
            return False
    return ("is a permutation", 0) not in _traits_together(sample) - _traits_together(other)


def _traits_together(sample: SampleCall) -> set[Trait]:
    rows = [value for value in sample.values if _is_row_of_whole(value)]
    return traits(torch.cat(rows)) if len(rows) > 1 else set()


def _is_row_of_whole(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or value.dim() != 1 or len(value) < 2 or value.dtype is torch.bool:
        return False
    return not (value.is_floating_point() or value.is_complex() or value.is_quantized)


def _is_size_kept(sample: SampleCall, other: SampleCall, before: int, after: int) -> bool:
    """Whether a number that was the size of some dimension is still the size of that dimension."""
    places = _sizes(sample).get(before, [])
    return any(other.values[at].shape[dim] == after for at, dim in places)


def _sizes(sample: SampleCall) -> dict[int, list[tuple[int, int]]]:
    """Return the sizes of all differentiated tensors, each with its places and dimensions."""
    found: dict[int, list[tuple[int, int]]] = {}
    for at in sample.active:
        for dim, size in enumerate(sample.values[at].shape):
            found.setdefault(size, []).append((at, dim))
    return found
