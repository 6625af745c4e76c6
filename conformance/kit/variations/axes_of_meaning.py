"""Define the axes of meaning: other samples that an author might have given, where the gradient must be right too.

Arguments that could lose their meaning are not varied: a whole number equal to a size, an index, a constant that may
have to add up to one. A subject may raise for any of these samples.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.calls import SampleCall
from conformance.kit.sample_calls import every_sample
from conformance.kit.tensors import differentiable, form_of, is_arrangeable, is_strided
from conformance.kit.traits import has_independent_columns, is_definite, is_of_one_sign, is_symmetric
from conformance.kit.variations.axis import Pick
from conformance.kit.variations.choices import other_choices
from conformance.kit.variations.constants import other_constants
from conformance.kit.variations.meaning import meant
from conformance.kit.variations.sizes import (
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
#: A sample of more elements than this would take long, and so many sizes are tried.
MOST_RESIZED, SIZES_TRIED = 2**14, 20
#: So many sizes are tried with their multiples.
MULTIPLES_TRIED = 6
#: A block that is larger is not gone beyond: what pairs rows with rows would take gigabytes.
LARGEST_BLOCK = 1100
#: Three rows made longer so many times are more than those of a block.
DOUBLINGS = 6
#: What stands in for a whole number that is often a dimension or a power.
NEXT = {-1: (0,), 0: (1,), 1: (0, 2), 2: (3, 1), 3: (2,)}


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
        if resized(sample, kind):
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
            for number, new in enumerate(dict.fromkeys([little, *large[:1], *squares, *large[1:]])):
                change = partial(resized_at, group=group, new=new)
                pick = Pick("size", _named(sample, group), f"{new} instead of {old}", change)
                found.setdefault(pick, (len(group) < len(places), number > 1))
    yield from sorted(found, key=found.__getitem__)


def _groups(places: list[Place], shapes: dict[int, tuple[int, ...]]) -> list[tuple[Place, ...]]:
    """Group places: all of them, those at the same distance from the last dimension, and each alone."""
    by_role: dict[int, list[Place]] = {}
    for at, dim in places:
        by_role.setdefault(len(shapes[at]) - dim, []).append((at, dim))
    groups = [tuple(places), *map(tuple, by_role.values()), *((place,) for place in places)]
    return list(dict.fromkeys(groups))


def _sizes(old: int, group: tuple[Place, ...], sample: SampleCall) -> list[int]:
    """List new sizes: two more, many, and just beyond a number in the source, such as a block. Odd sizes stay odd."""
    rows = [n + old % 2 for n in (BEYOND_BLOCKS if any(dim == 0 for _, dim in group) else BEYOND_BLOCKS[:1])]
    limits = [
        n + 1 + (n + 1 - old) % 2 for n in mentioned_by(sample.subject.target).numbers if old < n <= LARGEST_BLOCK
    ]
    return list(dict.fromkeys([old + 2, *rows, *limits[:2]]))


def resized_at(sample: SampleCall, group: tuple[Place, ...], new: int) -> SampleCall | None:
    """Return the sample with another size in some places; None if its meaning changes, or it gets too large."""
    shapes = {at: list(sample.values[at].shape) for at in sample.active}
    for at, dim in group:
        shapes[at][dim] = new
    if sum(map(math.prod, shapes.values())) > MOST_RESIZED:
        return None
    return meant(sample, sized({at: sample.values[at].detach() for at, _ in group}, group, new))


def number(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Vary each constant by itself: fractions, signs, uniform tensors and masks, permutations, defaults."""
    for at, value in enumerate(sample.values):
        for name, other in _numbers(sample, at, value):
            yield Pick("number", sample.names[at], name, partial(_with, others={at: other}))
    yield from _orders(sample)
    yield from _parts(sample)
    yield from _defaults(sample, world)


def _orders(sample: SampleCall) -> Iterator[Pick]:
    """Reorder integers that together form a permutation, such as the dimensions of a permute."""
    places = [at for at, value in enumerate(sample.values) if type(value) is int]
    if len(places) > 2 and sorted(sample.values[at] for at in places) == list(range(len(places))):
        names = " and ".join(sample.names[at] for at in places)
        turned = {at: (number + 1) % len(places) for number, at in enumerate(places)}
        yield Pick("number", names, "a permutation that is not its own inverse", partial(_with, others=turned))


def _parts(sample: SampleCall) -> Iterator[Pick]:
    """Make lengths in a list unequal, if they are equal and add up to a size."""
    sizes = {size for at in sample.active for size in sample.values[at].shape}
    for _, group in groupby(range(len(sample.values)), key=lambda at: sample.arguments_of[at]):
        places = [at for at in group if type(sample.values[at]) is int and at not in sample.top]
        lengths = [sample.values[at] for at in places]
        if len(places) > 1 and len(set(lengths)) == 1 and lengths[0] > 1 and sum(lengths) in sizes:
            names = f"{sample.names[places[0]]} and {sample.names[places[-1]]}"
            shifted = {places[0]: lengths[0] - 1, places[-1]: lengths[0] + 1}
            yield Pick("number", names, "one less and one more", partial(_with, others=shifted))


def _with(sample: SampleCall, others: Mapping[int, Any]) -> SampleCall:
    return replace(sample, values=tuple(others.get(at, value) for at, value in enumerate(sample.values)))


def _numbers(sample: SampleCall, at: int, value: Any) -> Iterator[tuple[str, Any]]:
    places = (*sample.active, *sample.of_modules)
    is_constant = isinstance(value, torch.Tensor) and at not in places and is_strided(value)
    is_one = is_constant and value.numel() == 1 and value.is_floating_point()
    if type(value) is float or is_one:
        number = float(value)
        for other in (number * 1.7 or 0.4, number * 0.6 or 0.7):
            yield f"{other:.6g} instead of {number:g}", torch.full_like(value, other) if is_one else other
    elif type(value) is int and value in NEXT and not sample.subject.gathers:  # it may be the number of a rank
        yield from ((f"{other} instead of {value}", other) for other in NEXT[value])
    if is_constant and value.numel() > 1:
        yield from other_constants(
            value.detach(), {size for other in sample.active for size in sample.values[other].shape}
        )


def _defaults(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Pass the defaults of forward that the sample leaves out: each with another value, and all as they are."""
    function = sample.subject.function
    if function is None or sample.subject.call:
        return
    try:
        names = list(inspect.signature(function.forward).parameters.values())[int(not sample.subject.separate) :]
    except (TypeError, ValueError):  # nobody knows
        return
    left_out = names[len(pytree.tree_unflatten(list(sample.values), sample.structure)) :]
    defaults = [name.default for name in left_out if name.kind is name.POSITIONAL_OR_KEYWORD]
    if not defaults or len(defaults) != len(left_out):
        return
    if all(one is None or type(one) in {bool, int, float, str} for one in defaults):
        for place, default in enumerate(defaults):
            for other in _other_defaults(default):
                passed = (*defaults[:place], other, *defaults[place + 1 :])
                choice = f"{other!r} instead of the default {default!r}"
                yield Pick("number", left_out[place].name, choice, partial(_passing, passed=passed, world=world))
    named = ", ".join(name.name for name in left_out)
    yield Pick("number", named, "passed as it is by default", partial(_passing, passed=tuple(defaults), world=world))


def _other_defaults(default: Any) -> list[Any]:
    if isinstance(default, bool):
        return [not default]
    return [default * 1.7 or 0.4] if isinstance(default, float) else []


def _passing(sample: SampleCall, passed: tuple[Any, ...], world: World) -> SampleCall:
    values = [
        value.detach().requires_grad_(at in sample.active) if differentiable(value) else value
        for at, value in enumerate(sample.values)
    ]
    args = (*pytree.tree_unflatten(values, sample.structure), *passed)
    (made,) = every_sample(replace(sample.subject, inputs=[args]), world)
    return made


def choice(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Vary one option: flip a flag, swap a string or enum member."""
    for index, other in enumerate(other_choices(sample)):
        pairs = zip(sample.values, other.values, strict=True)
        at = next(at for at, (one, changed) in enumerate(pairs) if one is not changed)
        yield Pick("choice", sample.names[at], repr(other.values[at]), partial(_chosen, index=index))


def _chosen(sample: SampleCall, index: int) -> SampleCall | None:
    found = other_choices(sample)
    return found[index] if index < len(found) else None


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
