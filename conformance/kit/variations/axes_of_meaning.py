"""Define the axes of meaning: other samples that an author might have given, where the gradient must be right too.

Arguments that could lose their meaning are not varied: a whole number equal to a size, an index, a constant that may
have to add up to one. A subject may raise for any of these samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import torch

from conformance.kit.calls import SampleCall
from conformance.kit.tensors import form_of, is_arrangeable
from conformance.kit.traits import has_independent_columns, is_definite, is_of_one_sign, is_symmetric
from conformance.kit.variations.axis import Pick
from conformance.kit.variations.meaning import meant
from conformance.kit.variations.options import choice, number
from conformance.kit.variations.sizes import (
    LONGER,
    NEW_SIZES,
    Place,
    alike_in_size,
    are_tied,
    in_batch,
    is_plain,
    lengthened_in,
    lengthened_with_multiples,
    multiples,
    resized,
    sized,
)
from conformance.kit.variations.variants import lengthened
from conformance.kit.variations.words import mentioned_by
from conformance.kit.world import World

#: A class that calls one of these has a result for both signs; of another one, numbers of one sign keep it.
SIGNS = {"abs", "absolute", "sign", "sgn", "signbit", "copysign", "relu", "where"}
#: A class that calls one of these may need a matrix whose first columns are independent of each other.
DECOMPOSITIONS = {"qr", "svd", "lu", "lu_factor", "inv", "inverse", "pinv", "solve", "solve_triangular", "det"}
#: More than the blocks of kernels have, and than a byte counts.
BEYOND_BLOCKS = (130, 300)
#: A whole number of a kernel's blocks: nothing is left for the last one.
WHOLE_BLOCKS = 128
#: A sample of more elements than this would take long, and so many sizes are tried.
MOST_RESIZED, SIZES_TRIED = 2**14, 20
#: Of more elements no result is made that squares them, as a matrix with all of them on its diagonal does.
MOST_SQUARED = 2**12
#: So many sizes are tried with their multiples.
MULTIPLES_TRIED = 6
#: A block that is larger is not gone beyond: what pairs rows with rows would take gigabytes.
LARGEST_BLOCK = 1100
#: Three rows made longer so many times are more than those of a block.
DOUBLINGS = 6


def size(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Vary each size, and give one input, or all, a dimension more."""
    yield from resizings(sample, world)
    for places in dict.fromkeys([sample.active, *((at,) for at in sample.active)] if is_plain(sample) else ()):
        names = " and ".join(sample.names[at] for at in places) if len(places) < len(sample.active) else ""
        yield Pick("size", names, "a dimension more, of two samples", partial(in_batch, places=places))


def resizings(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Vary each size: in all dimensions that have it, in those of one role, and in a single dimension."""
    yield from islice(_sized(sample), SIZES_TRIED)
    if not is_plain(sample):  # indices and masks follow, if they can mean the same
        yield Pick("size", "", f"made longer {DOUBLINGS} times", partial(_made_longer, world=world))
    for kind in NEW_SIZES:
        if resized(sample, kind) and not (kind == LONGER and _squares(sample)):
            yield Pick("size", "", kind, partial(resized, kind=kind))
    for places in alike_in_size(sample):
        made = partial(lengthened_in, places=places)
        yield Pick("size", _named(sample, places), "longer by two than others of its size", made)
    for place, times in islice(multiples(sample), MULTIPLES_TRIED):
        made = partial(lengthened_with_multiples, place=place, times=times)
        yield Pick("size", _named(sample, [place]), f"longer by two, and {_named(sample, times)} as much", made)


def _named(sample: SampleCall, places: Iterable[Place]) -> str:
    return " and ".join(f"dimension {dim} of {sample.names[at]}" for at, dim in places)


def _made_longer(sample: SampleCall, world: World) -> SampleCall | None:
    made: SampleCall | None = sample
    for _ in range(DOUBLINGS):
        made = lengthened(made, world) if made else None
    return made


def _sized(sample: SampleCall) -> Iterator[Pick]:
    """Vary sizes, each one first in all its places, a little and by much: the rest is what forward often refuses."""
    if not is_plain(sample):
        return
    shapes = {at: tuple(sample.values[at].shape) for at in sample.active}
    found: dict[Pick, tuple[bool, bool]] = {}
    for old in sorted({n for shape in shapes.values() for n in shape if n > 1}):
        if are_tied(sample, {old, *(math.prod(shape) for shape in shapes.values())}):
            continue
        places = [(at, dim) for at, shape in shapes.items() for dim, n in enumerate(shape) if n == old]
        # A matrix becomes a square; an even size stays even, for it may be made of pairs.
        larger = {n for at, _ in places for n in shapes[at] if n > old and (old % 2 or n % 2 == 0)}
        for group in _groups(places, shapes):
            squares = sorted(larger)[:1] if len(group) == len(places) else []
            little, *large = _sizes(old, group, sample)  # flags are crossed with these two
            for turn, new in enumerate(dict.fromkeys([little, *large[:1], *squares, *large[1:]])):
                change = partial(resized_at, group=group, new=new)
                pick = Pick("size", _named(sample, group), f"{new} instead of {old}", change)
                found.setdefault(pick, (len(group) < len(places), turn > 1))
    yield from sorted(found, key=found.__getitem__)


def _groups(places: list[Place], shapes: dict[int, tuple[int, ...]]) -> list[tuple[Place, ...]]:
    """Group places: all of them, those at the same distance from the last dimension, and each alone."""
    by_role: dict[int, list[Place]] = {}
    for at, dim in places:
        by_role.setdefault(len(shapes[at]) - dim, []).append((at, dim))
    groups = [tuple(places), *map(tuple, by_role.values()), *((place,) for place in places)]
    return list(dict.fromkeys(groups))


def _sizes(old: int, group: tuple[Place, ...], sample: SampleCall) -> list[int]:
    """List new sizes: two more, many, just beyond a number in the source, such as a block, and whole blocks.

    Odd sizes stay odd, but for whole blocks.
    """
    rows = [n + old % 2 for n in (BEYOND_BLOCKS if any(dim == 0 for _, dim in group) else BEYOND_BLOCKS[:1])]
    limits = [
        n + 1 + (n + 1 - old) % 2 for n in mentioned_by(sample.subject.target).numbers if old < n <= LARGEST_BLOCK
    ]
    return list(dict.fromkeys([old + 2, *rows, *limits[:2], WHOLE_BLOCKS]))


def resized_at(sample: SampleCall, group: tuple[Place, ...], new: int) -> SampleCall | None:
    """Return the sample with another size in some places; None if its meaning changes, or it gets too large."""
    shapes = {at: list(sample.values[at].shape) for at in sample.active}
    for at, dim in group:
        shapes[at][dim] = new
    elements = sum(map(math.prod, shapes.values()))
    if elements > MOST_RESIZED or (elements > MOST_SQUARED and _squares(sample)):
        return None
    return meant(sample, sized({at: sample.values[at].detach() for at, _ in group}, group, new))


def _squares(sample: SampleCall) -> bool:
    """Whether the results have as many elements as pairs can be made of those of the inputs."""
    given: int = sum(sample.values[at].numel() for at in sample.active)
    made: int = sum(one.numel() for one in sample.run().tensors)
    return made >= given**2 > 1


def value(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Vary values: a zero, another sign or another input's number in the middle, or the largest and smallest twice."""
    for at in sample.active:
        one, name = sample.values[at], sample.names[at]
        if is_arrangeable(one) and one.numel() > 1 and not is_symmetric(one.detach()):
            yield Pick("value", name, "a zero in the middle", partial(_with_middle, at=at, source=at, factor=0.0), at)
            if not is_of_one_sign(one.detach()) or SIGNS & mentioned_by(sample.subject.target).members:
                yield Pick("value", name, "the other sign", partial(_with_middle, at=at, source=at, factor=-1.0))
            for dim in {0, one.dim() - 1} if not one.is_complex() else ():
                words = f"its largest and smallest number twice along dimension {dim}"
                yield Pick("value", name, words, partial(_twice, at=at, dim=dim), at)
            alike = [other for other in sample.active if form_of(sample.values[other]) == form_of(one)]
            for other in alike[: alike[0] < at]:
                words = f"the number of {sample.names[other]} in the middle"
                yield Pick("value", name, words, partial(_with_middle, at=at, source=other), at)


def _with_middle(sample: SampleCall, at: int, source: int, factor: float = 1.0) -> SampleCall | None:
    """Return the sample with the middle number of an input, times a factor; None if a matrix is definite no more."""
    changed = sample.values[at].detach().clone(memory_format=torch.contiguous_format)
    middle = changed.numel() // 2
    changed.view(-1)[middle] = factor * sample.values[source].detach().reshape(-1)[middle]
    return None if is_definite(sample.values[at]) and not is_definite(changed) else sample.having({at: changed})


def _twice(sample: SampleCall, at: int, dim: int) -> SampleCall | None:
    """Return the sample with the largest and, if there is room, the smallest number twice in each row of an input."""
    changed = sample.values[at].detach().clone(memory_format=torch.contiguous_format)
    size = changed.shape[dim]
    if size < 2:
        return None
    for extreme in (changed.max, changed.min) if size > 3 else (changed.max,):
        found = extreme(dim, keepdim=True)
        changed.scatter_(dim, (found.indices + 1) % size, found.values)
    if DECOMPOSITIONS & mentioned_by(sample.subject.target).members and not has_independent_columns(changed):
        return None
    return meant(sample, {at: changed})


#: The axes of each family, by its name.
MEANINGS: dict[str, Callable[[SampleCall, World], Iterator[Pick]]] = {
    "size": size,
    "number": number,
    "choice": choice,
    "value": value,
}
