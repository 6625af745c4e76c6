"""Vary what is passed beside the inputs: numbers, masks, flags, words, and defaults that a sample leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.calls import SampleCall
from conformance.kit.sample_calls import parameters_of, sample_call
from conformance.kit.samples import Sample
from conformance.kit.tensors import is_strided, same_values
from conformance.kit.variations.axis import Pick
from conformance.kit.variations.choices import A_DIMENSION, name_in_forward, other_choices
from conformance.kit.variations.constants import other_constants
from conformance.kit.variations.meaning import keeps_pairs
from conformance.kit.variations.sizes import factors
from conformance.kit.world import World

#: What stands in for a whole number that is often a dimension or a power. Larger ones that are no size grow by two.
NEXT = {-1: (0,), 0: (1,), 1: (0, 2), 2: (3, 1), 3: (2,)}
#: What stands in for None: a factor, or what an argument with such a name takes.
IN_PLACE_OF_NONE, DIMENSIONS, OF_DIMENSIONS = (0.7, 1), (0, 1), re.compile("dim|axis")
#: Names of a number that marks labels or places that are left out; in the sample it may mark none.
MARKS = re.compile("ignore|^pad(?:ding)?_(?:idx|index|id)$")
LABELS = (torch.int64, torch.int32)
#: Dimensions counted from the end, in place of what is surely a dimension.
FROM_THE_END = (-1, -2)
#: What stands in for a number that keeps another from zero, and is too small to show where backward has it.
LARGER, NEARBY, SMALL, KEEPS_FROM_ZERO = 0.01, 0.01 * (1 + 1e-6), 1e-3, re.compile(r"(?:^|_)eps(?:ilon)?(?:_|$)")
OF_THE_DEFAULT = "instead of the default"


def number(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Vary each constant by itself: fractions, signs, uniform tensors and masks, permutations, defaults."""
    for at in range(len(sample.values)):
        for words, other in _numbers(sample, at):
            yield Pick("number", sample.names[at], words, partial(_with_number, at=at, other=other))
    yield from _orders(sample)
    yield from _parts(sample)
    whole = _with_defaults(sample)
    if whole is None:
        return
    left_out = range(len(sample.values), len(whole.values))
    for at in left_out:
        for words, other in _numbers(whole, at):
            change = partial(_with_default, at=at, other=other)
            yield Pick("number", name_in_forward(whole, at), words.replace("instead of", OF_THE_DEFAULT), change)
    named = ", ".join(name_in_forward(whole, at) for at in left_out)
    yield Pick("number", named, "passed as it is by default", _with_defaults)


def _numbers(sample: SampleCall, at: int) -> Iterator[tuple[str, Any]]:
    value, communicates = sample.values[at], sample.subject.gathers or sample.subject.is_typed
    is_constant = isinstance(value, torch.Tensor) and at not in (*sample.active, *sample.of_modules)
    is_constant = is_constant and is_strided(value)
    is_one = is_constant and value.numel() == 1 and value.is_floating_point()
    sizes = {size for other in sample.active for size in sample.values[other].shape}
    if type(value) is float or is_one:
        number = float(value)
        for other in (number * 1.7 or 0.4, number * 0.6 or 0.7):
            yield f"{other:.6g} instead of {number:g}", torch.full_like(value, other) if is_one else other
        if 0 < number < SMALL and not is_one and _is_added(sample, at):
            yield f"{LARGER:g} instead of {number:g}", LARGER
    elif type(value) is int and not sample.subject.gathers and value not in factors(sample, sizes):
        # Where it gathers, it may be the number of a rank.
        yield from ((f"{other} instead of {value}", other) for other in _whole_numbers(sample, at, sizes))
    elif value is None and not communicates:
        others = DIMENSIONS if OF_DIMENSIONS.search(name_in_forward(sample, at)) else IN_PLACE_OF_NONE
        yield from ((f"{other} instead of None", other) for other in others)
    if is_constant and value.numel() > 1:
        for words, changed in other_constants(value.detach(), sizes):
            if keeps_pairs(sample, _with(sample, {at: changed}), at):
                yield words, changed


def _whole_numbers(sample: SampleCall, at: int, sizes: set[int]) -> Iterator[int | None]:
    """Yield what stands in for a whole number: what its name takes, or others, of which none becomes a label.

    A dimension that may be left out becomes None: all of them.
    """
    value, name = sample.values[at], name_in_forward(sample, at)
    if MARKS.search(name):
        yield from (int(labels.reshape(-1)[0]) for labels in _labels(sample) if len(labels.unique()) > 1)
        return
    others = NEXT.get(value, ()) + ((value + 2,) if value > 2 and value not in sizes else ())
    yield from (other for other in others if OF_DIMENSIONS.search(name) or not _is_taken(sample, value, other))
    if value in NEXT and A_DIMENSION.search(name):
        yield from (other for other in FROM_THE_END if other != value)
        if any(one.name == name and one.default is None for one in parameters_of(sample.subject)):
            yield None


def _labels(sample: SampleCall) -> list[torch.Tensor]:
    """Return the tensors of labels or indices."""
    tensors = (value for value in sample.values if isinstance(value, torch.Tensor) and is_strided(value))
    return [value for value in tensors if value.dtype in LABELS and value.numel()]


def _is_taken(sample: SampleCall, value: int, other: int) -> bool:
    """Whether a number that stands for nothing else, such as that of a blank, would be among labels or indices."""
    return any(bool((labels == value).any()) < bool((labels == other).any()) for labels in _labels(sample))


def _is_added(sample: SampleCall, at: int) -> bool:
    """Whether a number is one that keeps another from zero, and not how near to its end an iteration stops."""
    if not KEEPS_FROM_ZERO.search(name_in_forward(sample, at)):
        return False
    try:
        one, other = (_with(sample, {at: size}).run().tensors for size in (LARGER, NEARBY))
    except Exception:  # forward takes no other number
        return False
    return not all(map(same_values, one, other))


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


def choice(sample: SampleCall, world: World) -> Iterator[Pick]:
    """Vary one option: flip a flag, swap a string or enum member."""
    for at, other in other_choices(sample):
        yield Pick("choice", sample.names[at], repr(other), partial(_with, others={at: other}))
    whole = _with_defaults(sample)
    if whole is None:
        return
    for at, other in other_choices(whole, len(sample.values)):
        change = partial(_with_default, at=at, other=other)
        words = f"{other!r} {OF_THE_DEFAULT} {whole.values[at]!r}"
        yield Pick("choice", name_in_forward(whole, at), words, change)


def _with_number(sample: SampleCall, at: int, other: Any) -> SampleCall | None:
    """Return the sample with another constant; None if it has one of another size already."""
    is_other_size = isinstance(other, torch.Tensor) and other.shape != sample.values[at].shape
    return None if is_other_size else _with(sample, {at: other})


def _with(sample: SampleCall, others: Mapping[int, Any]) -> SampleCall:
    return replace(sample, values=tuple(others.get(at, value) for at, value in enumerate(sample.values)))


def _with_default(sample: SampleCall, at: int, other: Any) -> SampleCall:
    # A choice on another axis may have passed the defaults already.
    return _with(_with_defaults(sample) or sample, {at: other})


def _with_defaults(sample: SampleCall) -> SampleCall | None:
    """Return the sample with what it leaves out of forward passed as by default; None if it leaves out nothing."""
    if sample.subject.function is None:
        return None
    args = pytree.tree_unflatten(list(sample.values), sample.structure)
    left_out = parameters_of(sample.subject)[len(args) :]
    if not left_out or any(one.kind is not one.POSITIONAL_OR_KEYWORD or one.default is one.empty for one in left_out):
        return None
    made = sample_call(sample.subject, Sample((*args, *(one.default for one in left_out)), sample.label))
    return replace(made, active=sample.active, of_modules=sample.of_modules)
