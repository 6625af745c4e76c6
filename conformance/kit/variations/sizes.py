"""Derive samples of other sizes: one row, many rows, a shorter row, a row longer than a kernel's blocks.

Inputs of equal size get new sizes that are equal, and others that differ.

A subject may refuse them. What it accepts it must differentiate correctly, like the sample itself. Rows stay even or
odd: a Function that splits them in halves without checking would split them elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.calls import SampleCall
from conformance.kit.sample_calls import parameters_of
from conformance.kit.tensors import is_strided, to_double
from conformance.kit.traits import is_symmetric
from conformance.kit.variations.meaning import meant

#: An input, and one of its dimensions.
Place = tuple[int, int]
#: More elements than the blocks of kernels have, and no multiple of four.
LONG = 1030
#: More rows than are worked on at a time, and no multiple of four.
MANY_ROWS = 130
#: A sample of more elements than this would take long.
MOST_ELEMENTS = 2**20

#: A second sample is the first one times this: signs, bounds and order stay.
SECOND = 0.75

LONGER = "over a thousand along the last dimension"
TALLER = "over a hundred along the first dimension"
ONE_COLUMN = "one along the last dimension"
ONE_INSIDE = "one along the second dimension"
#: How many dimensions an input needs so that the one that becomes one is none of the others.
DIMENSIONS_NEEDED = {ONE_COLUMN: 2, ONE_INSIDE: 3}
SEVERAL_ROWS = "three along the first dimension instead of one"
SEVERAL_COLUMNS = "three along the last dimension instead of one"
#: Those for which a dimension must have no meaning of its own, such as real and imaginary part.
GROWN = (LONGER, TALLER, SEVERAL_ROWS, SEVERAL_COLUMNS)
#: New sizes for a sample: which dimension of its first input they start from, and what becomes of its size.
NEW_SIZES: dict[str, tuple[int, Callable[[int], int]]] = {
    "one along the first dimension": (0, lambda size: 1),
    ONE_COLUMN: (-1, lambda size: 1),
    ONE_INSIDE: (1, lambda size: 1),
    "two fewer along the last dimension": (-1, lambda size: size - 2),
    SEVERAL_ROWS: (0, lambda size: 3 if size == 1 else size),
    SEVERAL_COLUMNS: (-1, lambda size: 3 if size == 1 else size),
    TALLER: (0, lambda size: max(size, MANY_ROWS + size % 2)),
    LONGER: (-1, lambda size: max(size, LONG + size % 2)),
}


def resized(sample: SampleCall, kind: str) -> SampleCall | None:
    """Change the size of one dimension of the first input, and of every equal dimension.

    None if that changes nothing, or if other arguments may depend on the sizes: whole numbers equal to the size or to a
    number of elements, tensors that are not differentiated, such as indices and masks, and objects.
    """
    dim, change = NEW_SIZES[kind]
    if not is_plain(sample):
        return None
    tensors: dict[int, torch.Tensor] = {at: sample.values[at] for at in sample.active}
    first = tensors[sample.active[0]]
    if first.dim() < DIMENSIONS_NEEDED.get(kind, 0):
        return None
    size = first.shape[dim] if first.dim() else 1
    sizes = {size, *(value.numel() for value in tensors.values())}
    new = change(size)
    if size < (1 if kind in {SEVERAL_ROWS, SEVERAL_COLUMNS} else 2) or new in {0, size} or are_tied(sample, sizes):
        return None
    if size == 1 and any(value.dim() < 2 or value.shape.count(1) > 1 for value in tensors.values()):
        return None  # another dimension of one may be there to be broadcast
    if size == 1 and has_parts_that_broadcast(sample):
        return None
    shapes = ([new if own == size else own for own in value.shape] for value in tensors.values())
    if sum(map(math.prod, shapes)) > MOST_ELEMENTS:
        return None
    places = [(at, dim) for at, value in tensors.items() for dim, own in enumerate(value.shape) if own == size]
    made = meant(sample, sized({at: value.detach() for at, value in tensors.items()}, places, new))
    return made and replace(made, label=f"{sample.label}, {kind}")


def alike_in_size(sample: SampleCall) -> Iterator[tuple[Place, ...]]:
    """Yield the places of inputs that can get longer while one that is as long does not, or alone of those."""
    if not is_plain(sample):
        return
    shapes = {at: tuple(sample.values[at].shape) for at in sample.active}
    for at, shape in shapes.items():
        for dim, size in enumerate(shape):
            others = [
                (other, dim)
                for other, own in shapes.items()
                if other != at and len(own) == len(shape) and own[dim] == size > 1
            ]
            if others and not are_tied(sample, {size, math.prod(shape)}):
                yield ((at, dim),)
            if len(others) > 1 and not are_tied(sample, {size, *(math.prod(shapes[other]) for other, _ in others)}):
                yield tuple(others)


def lengthened_in(sample: SampleCall, places: Iterable[Place]) -> SampleCall | None:
    """Return the sample with some of its inputs longer by two, each along one dimension."""
    return meant(
        sample, {at: stretched(sample.values[at].detach(), dim, sample.values[at].shape[dim] + 2) for at, dim in places}
    )


def multiples(sample: SampleCall) -> Iterator[tuple[Place, dict[Place, int]]]:
    """Yield each place with those of other inputs whose size is a multiple of its own, and how many times it is.

    A row may be made of blocks that are as long as another input.
    """
    if not is_plain(sample):
        return
    shapes = {at: tuple(sample.values[at].shape) for at in sample.active}
    places = {(at, dim): size for at, shape in shapes.items() for dim, size in enumerate(shape) if size > 1}
    for place, size in places.items():
        times = {other: n // size for other, n in places.items() if other[0] != place[0] and n > size and n % size == 0}
        if times and not are_tied(sample, {size, *map(math.prod, shapes.values())}):
            yield place, times


def lengthened_with_multiples(sample: SampleCall, place: Place, times: Mapping[Place, int]) -> SampleCall | None:
    """Return the sample with one size longer by two, and its multiples by as many times two."""
    values = {at: sample.values[at].detach() for at in sample.active}
    size = values[place[0]].shape[place[1]] + 2
    for other, factor in {place: 1, **times}.items():
        values = sized(values, [other], factor * size)
    return meant(sample, values) if sum(map(torch.numel, values.values())) <= MOST_ELEMENTS else None


def in_batch(sample: SampleCall, places: Sequence[int]) -> SampleCall | None:
    """Return two samples along a new first dimension of some inputs; None unless forward gives the results of both.

    If it does, the other dimensions have the meaning that they had: forward counts them from the last one.
    """
    if not holds_no_object(sample):
        return None
    second = {at: SECOND * sample.values[at].detach() for at in places}
    both = sample.having({at: torch.stack([sample.values[at].detach(), one]) for at, one in second.items()})
    try:
        one, other, outputs = (
            [output.detach() for output in each.run().outputs] for each in (sample, sample.having(second), both)
        )
        expected = [torch.stack(pair) for pair in zip(one, other, strict=True)]
        pairs = zip(outputs, expected, strict=True)
        is_batch = all(actual.shape == right.shape and torch.allclose(actual, right) for actual, right in pairs)
    except Exception:  # forward takes no other number of dimensions
        return None
    return both if outputs and is_batch else None


def is_plain(sample: SampleCall) -> bool:
    """Whether every tensor is differentiated and strided, or a scalar: all others may depend on sizes."""
    tensors = {at: value for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)}
    others = [tensors[at] for at in tensors if at not in sample.active]
    has_others = any(value.dim() or not value.is_floating_point() for value in others)
    return not has_others and all(map(is_strided, tensors.values()))


def holds_no_object(sample: SampleCall) -> bool:
    """Whether every value is a tensor, number, string or None: an object may have state."""
    return not any(_is_tied(value, set()) for value in sample.values)


def is_read(sample: SampleCall, other: SampleCall) -> bool:
    """Whether the results at another size depend on the elements that were added to a sample.

    If they do not, the dimension has a fixed meaning, such as real and imaginary part, and further elements have none.
    """
    made = {at: _moved_beyond(sample.values[at], other.values[at]) for at in sample.active}
    pairs = zip(other.run().outputs, other.having(made).run().outputs, strict=True)
    return any(not torch.equal(here, there) for here, there in pairs)


def _moved_beyond(small: torch.Tensor, large: torch.Tensor) -> torch.Tensor:
    """Move the elements beyond a smaller tensor's sizes halfway to its last one, which keeps bounds and order."""
    if large.dim() > small.dim():
        return torch.cat([large[:1], large[1:] / 2]).detach()
    moved = large.detach().clone()
    for dim, size in enumerate(small.shape):
        if moved.shape[dim] > size:
            beyond = moved.narrow(dim, size, moved.shape[dim] - size)
            beyond.copy_((beyond + moved.narrow(dim, max(0, size - 1), 1)) / 2)
    return moved


def has_parts_that_broadcast(sample: SampleCall) -> bool:
    """Whether an input may have one element along a dimension because another one, and a result, has several."""
    shapes = [sample.values[at].shape for at in sample.active]
    pairs = [(one, other) for one, other in product(shapes, shapes) if len(one) == len(other)]
    apart = {(len(one), dim) for one, other in pairs for dim, size in enumerate(one) if size == 1 != other[dim]}
    results = [output.shape for output in sample.run().outputs] if apart else []
    sizes = ({shape[dim] for shape in results if len(shape) == rank} for rank, dim in apart)
    return any(found != {1} for found in sizes)


def grows_as_a_whole(sample: SampleCall, other: SampleCall) -> bool:
    """Whether sizes of a sample are larger in another one, equal ones alike, and none may be there to be broadcast.

    Tensors of one list may grow apart.
    """
    shapes = {at: (sample.values[at].shape, other.values[at].shape) for at in sample.active}
    if any(len(old) != len(new) for old, new in shapes.values()) or has_parts_that_broadcast(other):
        return False
    pairs = {pair for old, new in shapes.values() for pair in zip(old, new, strict=True)}
    lists = {_list_of(sample, at) for at, (old, new) in shapes.items() if old != new}
    is_alike = len(dict(pairs)) == len(pairs) or (len(lists) == 1 and None not in lists)
    return is_alike and all(new == old or new > old > 1 for old, new in pairs)


def _list_of(sample: SampleCall, at: int) -> int | None:
    """Return the number of the argument that is the list an input is in, that of ``*args`` too; None if it is alone."""
    owner = sample.arguments_of[at]
    variadic = [number for number, one in enumerate(parameters_of(sample.subject)) if one.kind is one.VAR_POSITIONAL]
    return owner if at not in sample.top else next((first for first in variadic if first <= owner), None)


def are_tied(sample: SampleCall, sizes: set[int]) -> bool:
    """Whether arguments may have to match the sizes: integers, alone or multiplied, a list as long, or an object."""
    args = pytree.tree_unflatten(list(sample.values), sample.structure)
    lists = [one for one in args if isinstance(one, list | tuple) and not any(map(torch.is_tensor, one))]
    is_tied = any(_is_tied(value, sizes) for value in sample.values) or any(len(one) in sizes for one in lists)
    return is_tied or bool(factors(sample, sizes))


def factors(sample: SampleCall, sizes: Collection[int]) -> set[int]:
    """Return integers among the arguments two of which, multiplied, are a size: heads, and their width."""
    numbers = Counter(value for value in sample.values if type(value) is int and value > 1)
    pairs = ((one, size // one) for one, size in product(numbers, sizes) if size % one == 0)
    return {one for one, other in pairs if numbers[other] > (one == other)}


def _is_tied(value: Any, sizes: set[int]) -> bool:
    plain = isinstance(value, (torch.Tensor, bool, int, float, str, torch.dtype)) or value is None
    return not plain or (isinstance(value, int) and value in sizes)


def sized(values: Mapping[int, torch.Tensor], places: Iterable[Place], new: int) -> dict[int, torch.Tensor]:
    """Return tensors with another size in some places; a symmetric matrix that stays square stays symmetric."""
    made = dict(values)
    for at, dim in places:
        is_shorter = new < made[at].shape[dim]
        made[at] = made[at].narrow(dim, 0, new) if is_shorter else stretched(made[at], dim, new)
    for at, value in values.items():
        one = of_equal_norm(made[at], value)
        is_kept = is_symmetric(value) and one.shape[-1] == one.shape[-2]
        made[at] = ((one + one.mH) / 2 if is_kept else one).clone(memory_format=torch.contiguous_format)
    return made


def of_equal_norm(made: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Scale a tensor that grew along several dimensions by how much it grew: a contraction stays one.

    >>> of_equal_norm(torch.ones(4, 4), torch.ones(2, 2))[0], of_equal_norm(torch.ones(4, 2), torch.ones(2, 2))[0]
    (tensor([0.5000, 0.5000, 0.5000, 0.5000]), tensor([1., 1.]))
    """
    grown = [new / old for old, new in zip(value.shape, made.shape, strict=True) if new > old > 0]
    return (to_double(made) / max(grown)).to(made.dtype) if len(grown) > 1 else made


def stretched(value: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """Lengthen a tensor by interpolation, which keeps signs, bounds and order; halves follow a single element.

    >>> stretched(torch.tensor([1.0, 3.0]), 0, 3)
    tensor([1., 2., 3.])
    """
    if value.shape[dim] == 1:
        value = torch.cat([value, (to_double(value) / 2).to(value.dtype)], dim)
    last = value.shape[dim] - 1
    at = torch.linspace(0, last, size, dtype=torch.float64, device=value.device)
    before = at.long().clamp(max=last - 1)
    shape = [size if other == dim else 1 for other in range(value.dim())]
    weight = (at - before).view(shape)
    wide = to_double(value)  # eight bits cannot be added
    made = wide.index_select(dim, before) * (1 - weight) + wide.index_select(dim, before + 1) * weight
    return made.to(value.dtype)
