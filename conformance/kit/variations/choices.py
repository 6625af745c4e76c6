"""Derive samples with another choice: a flag flipped, a string or enum member swapped.

Strings are those that the subject's source compares with; they stand in for None too. Words of PyTorch's own options
need not be in the source, for forward may leave them to PyTorch. A subject may refuse all of these, and need not have a
derivative for them: a flag may ask for rounding with a gradient that is passed straight through.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import pairwise
from types import NoneType
from typing import Any

import torch

from conformance.kit import tolerances
from conformance.kit.calls import Run, SampleCall
from conformance.kit.numerics.derivatives import slopes_along
from conformance.kit.numerics.differences import shifted
from conformance.kit.numerics.nearby import drawn_direction, moved_along, rms_size
from conformance.kit.sample_calls import parameters_of
from conformance.kit.tensors import dense, is_strided, same_values, to_double
from conformance.kit.variations.variants import draws
from conformance.kit.variations.words import mentioned_by
from conformance.kit.world import World

#: Most alternatives that are tried for a sample, and for one argument.
MOST_CHOICES, IN_PLACE_OF_ONE = 6, 3
#: How many elements of an input are moved to find one that forward ignores, and how far.
PROBED_ELEMENTS, PROBE_STEP = 24, 1e-5
#: How long the way is along which a jump is looked for, next to the size of the input, its parts, and their halvings.
FAR, PARTS, JUMP_HALVINGS = 3.0, 32, 30
#: Flags with such a word in their names assert facts about other arguments, so they are never set to True.
CLAIMS = re.compile(
    r"(?:^|_)(?:assumes?|centered|coalesced|contiguous|definite|disjoint|hermitian|known|monotone|nonnegative|nonzero|"
    r"normalized|ordered|orthogonal|orthonormal|positive|presorted|psd|sorted|spd|symmetric|unique|valid)(?:_|$)"
)
#: Names of what is surely a dimension, and no number of features.
A_DIMENSION = re.compile(r"^(?:dim|axis)[01]?$")
#: A whole number of such a name may leave results the same, and gradients too: a size of parts, or a dimension that is
#: counted from the end.
SAME_BY_ITSELF = re.compile(rf"chunk|block|tile|{A_DIMENSION.pattern}")
#: Part of the name of an option that PyTorch has too, and its words there.
PYTORCH_WORDS = {
    "reduc": ("none", "mean", "sum", "prod", "amax", "amin"),
    "approximate": ("none", "tanh"),
    "padding_mode": ("zeros", "border", "reflection"),
}
#: The word for no reduction, and one that no option has.
UNREDUCED, NO_WORD = "none", "no such word"
#: Types that a sample may contain besides: a flag may turn on permanent changes of objects.
_PLAIN = (torch.Tensor, bool, int, float, complex, str, NoneType, torch.dtype, torch.device, Enum)


def other_choices(sample: SampleCall, start: int = 0) -> list[tuple[int, Any]]:
    """List other values of options, each with its place, from a place on: a flag flipped, another word or enum member.

    There are none if arguments contain objects, or for a collective, which a flag may make asynchronous.
    """
    communicates = sample.subject.is_typed or sample.subject.gathers
    if communicates or not all(isinstance(value, _PLAIN) for value in sample.values):
        return []
    places = range(start, len(sample.values))
    return [(at, other) for at in places for other in _others(sample, at, sample.values[at])][:MOST_CHOICES]


def has_meant_derivative(sample: SampleCall, other: SampleCall, world: World, is_number: bool = False) -> bool:
    """Whether a gradient can be expected to be the derivative at another choice.

    If results stay the same, the choice may concern only the gradient, as reversing it does, unless it is a number
    that changes neither. If there is no gradient left, or forward does not follow it, as for rounding, it is not
    meant to be the derivative. Another number, such as a dimension, is expected to have one even if forward draws,
    and if the gradient is only in the wrong place.
    """
    here, there = sample.run(), other.run()
    if not there.outputs or not all(bool(dense(output.detach()).isfinite().all()) for output in there.outputs):
        return False
    if (_same_results(here, there) and not _leaves_all_the_same(sample, other)) or (
        not is_number and draws(other, world)
    ):
        return False
    cotangents = there.cotangents(world)
    before = dict(zip(here.leaves, here.gradients(here.cotangents(world)), strict=True))
    after = dict(zip(there.leaves, there.gradients(cotangents), strict=True))
    if any(_is_something(before[at]) and not _is_something(after[at]) for at in after):
        return False
    given = [(at, gradient) for at, gradient in after.items() if gradient is not None]
    return not any(_is_surrogate(there, at, gradient, cotangents, is_number) for at, gradient in given)


def has_surrogate(sample: SampleCall, world: World) -> bool:
    """Tell a surrogate gradient from an unused input by taking a long step: forward may round."""
    run = sample.run()
    cotangents = run.cotangents(world)
    gradients = zip(run.leaves, run.gradients(cotangents), strict=True)
    return any(_is_surrogate(run, at, gradient, cotangents) for at, gradient in gradients if gradient is not None)


def jumps_newly(sample: SampleCall, other: SampleCall, world: World) -> bool:
    """Whether results jump along a path on which they do not with the first choice, as hard decisions do.

    The gradient there may be that of the soft decision on purpose.
    """
    return _jumps(other, world) and not _jumps(sample, world)


def _jumps(sample: SampleCall, world: World) -> bool:
    """Whether results change along a tiny part of a path about as much as along a large part."""
    steps = {at: FAR * step for at, step in drawn_direction(sample, world, "far").items() if is_strided(step)}

    def after(part: float) -> torch.Tensor:
        outputs = moved_along(sample, steps, part).run().outputs
        return torch.cat([to_double(dense(output.detach())).reshape(-1) for output in outputs])

    def change(start: float, end: float) -> float:
        return float((after(end) - after(start)).abs().max())

    try:
        low, high = max(pairwise(torch.linspace(0, 1, PARTS + 1).tolist()), key=lambda ends: change(*ends))
        first = change(low, high)
        for _ in range(JUMP_HALVINGS):
            middle = (low + high) / 2
            low, high = max((low, middle), (middle, high), key=lambda ends: change(*ends))
        return change(low, high) > first / 10
    except Exception:  # it does not take what lies on the way
        return False


def _leaves_all_the_same(sample: SampleCall, other: SampleCall) -> bool:
    """Whether the calls differ only in numbers that by their names change neither results nor gradients."""
    same = {at for at, (one, there) in enumerate(zip(sample.values, other.values, strict=False)) if one is there}
    changed = [at for at in range(len(other.values)) if at not in same]
    return all(type(other.values[at]) is int and SAME_BY_ITSELF.search(name_in_forward(other, at)) for at in changed)


def _same_results(one: Run, other: Run) -> bool:
    return len(one.tensors) == len(other.tensors) and all(map(same_values, one.tensors, other.tensors))


def _is_something(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and bool(dense(gradient).any())


def _is_surrogate(
    run: Run, at: int, gradient: torch.Tensor, cotangents: list[torch.Tensor], is_number: bool = False
) -> bool:
    """Whether some element has a gradient although forward does not depend on it, and the others have the right one.

    With another number the others need not: indices may belong to a dimension. But if another element has none although
    forward depends on it, the gradient may be in the wrong place instead; and if another has none because forward does
    not depend on it, whatever the loss, it may lag behind a threshold.
    """
    value = run.sample.values[at].detach()
    if not is_strided(value) or not value.numel():
        return False
    numbers = dense(gradient).reshape(-1)
    places = torch.linspace(0, value.numel() - 1, min(value.numel(), PROBED_ELEMENTS)).round().long().tolist()
    claimed = [place for place in places if bool(numbers[place] != 0)]
    others = [place for place in places if place not in claimed]
    is_ignored = partial(_is_ignored, run, at)
    read = [place for place in claimed if not is_ignored(place)]
    if len(read) == len(claimed):
        return False
    if is_number:
        again = run.sample.run()
        opposite = dict(zip(again.leaves, again.gradients([-one for one in cotangents]), strict=True))[at]
        follows_loss = opposite is None or not same_values(dense(opposite), -dense(gradient))
        return all(map(is_ignored, others)) and (not others or follows_loss)
    direction = torch.zeros_like(numbers)
    direction[read] = numbers[read]
    (slope,) = slopes_along(run, [cotangents], at, direction.reshape(value.shape).to(value.dtype))
    claim = float(direction.abs().square().sum())
    return abs(slope - claim) <= tolerances.RESOLUTION * claim


def _is_ignored(run: Run, at: int, place: int) -> bool:
    return all(_is_same_moved(run, at, place, sign * PROBE_STEP) for sign in (1, -1))


def _is_same_moved(run: Run, at: int, place: int, step: float) -> bool:
    value = run.sample.values[at].detach()
    there = run.sample.having({at: shifted(value, place, step * rms_size(value))}).run(needed=run.leaves).tensors
    return all(same_values(run.tensors[output].detach(), there[output].detach()) for output in run.places)


def _others(sample: SampleCall, at: int, value: Any) -> list[Any]:
    if isinstance(value, bool):
        claims = not value and CLAIMS.search(name_in_forward(sample, at))
        return [] if claims else [not value]
    if isinstance(value, Enum):
        others = [other for other in type(value) if other is not value]
        names = mentioned_by(sample.subject.target).members
        return ([other for other in others if other.name in names] or others)[:IN_PLACE_OF_ONE]
    if isinstance(value, str) or value is None:
        groups, called = mentioned_by(sample.subject.target).words, name_in_forward(sample, at)
        own = [word for name, words in groups if value in words or name == called != "" for word in words]
        own = [*_pytorch_words(sample, at, called), *own]
        return [word for word in dict.fromkeys(own) if word != value][:IN_PLACE_OF_ONE]
    return []


def _pytorch_words(sample: SampleCall, at: int, called: str) -> list[str]:
    """List PyTorch's other words for an option, if forward knows them: it refuses others, or does not reduce."""
    value = sample.values[at]
    known = [word for part, words in PYTORCH_WORDS.items() if part in called and value in words for word in words]
    if not known:
        return []

    def shapes(word: str) -> list[torch.Size] | None:
        values = (*sample.values[:at], word, *sample.values[at + 1 :])
        try:
            return [output.shape for output in replace(sample, values=values).run().outputs]
        except Exception:  # forward takes no such word
            return None

    found = {word: made for word in known if (made := shapes(word)) is not None}
    refuses = shapes(NO_WORD) is None
    return [
        word for word in found if word != value and (refuses or (word == UNREDUCED and found[word] != found.get(value)))
    ]


def name_in_forward(sample: SampleCall, at: int) -> str:
    """Return forward's name of an argument, or the last key of a value inside one; empty if unknown."""
    owner, path = sample.arguments_of[at], sample.names[at]
    if at not in sample.top:
        return path.rpartition("['")[2].removesuffix("']")
    names = [one.name for one in parameters_of(sample.subject)]
    return names[owner] if owner < len(names) else ""
