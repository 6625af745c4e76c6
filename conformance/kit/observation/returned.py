"""Explain what is wrong with a method's return value if PyTorch rejects it: its own message is about internals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from conformance.kit.calls import SampleCall
from conformance.kit.deviations import Deviation, NotApplicable, Skipped
from conformance.kit.frames import name_of, text_of
from conformance.kit.recording import recording
from conformance.kit.sample_calls import active_samples
from conformance.kit.subject import Subject
from conformance.kit.tensors import many
from conformance.kit.world import World

#: What may be wrong with a value in place of a tensor: something else, another shape, or nothing at all.
_MISTAKES: tuple[Callable[[Any, torch.Tensor], bool], ...] = (
    lambda value, right: value is not None and not isinstance(value, torch.Tensor),
    lambda value, right: isinstance(value, torch.Tensor) and value.shape != right.shape,
    lambda value, right: value is None,
)


@contextmanager
def explained(subject: Subject, world: World, member: str, call: Callable[[SampleCall], object]) -> Iterator[None]:
    """If PyTorch raises inside the block, say first what is wrong with the return value of a method of the class.

    ``member`` is backward or jvp, and ``call`` differentiates a sample so that PyTorch calls it. With several ranks it
    is unknown which ones raised, so nothing is repeated.
    """
    try:
        yield
    except (Deviation, NotApplicable, Skipped):
        raise
    except Exception as error:
        found = _refused(subject, member, call, world) if world.size == 1 and subject.defines(member) else None
        if found is None:
            raise
        what, actual, expected = found
        line = next(iter(text_of(error).splitlines()), "")
        raise Deviation(what, f"{actual}; PyTorch says: {name_of(error)}: {line}", expected) from error


def _refused(
    subject: Subject, member: str, call: Callable[[SampleCall], object], world: World
) -> tuple[str, str, str] | None:
    """Return the first invalid value: what it is, its description, and what would be right."""
    recorded, notes = recording(subject, "forward", member)
    for sample in active_samples(recorded, world):
        before = len(notes.of(member))
        try:
            call(sample)
        except Exception:
            if not notes.of("forward") or len(notes.of(member)) == before:  # the method itself raised
                return None
            forward, given = notes.of("forward")[-1], notes.of(member)[-1].returned
            inputs = forward.args if subject.separate else forward.args[1:]  # in the combined form ctx comes first
            returned, like = many(given), many(forward.returned) if member == "jvp" else inputs
            if isinstance(given, list) or len(returned) != len(like):  # the clause on the number of values says so
                return None
            return _wrong(
                returned, like, f"what {member} returns for", "output" if member == "jvp" else "input", sample
            )
    return None


def _wrong(
    returned: Sequence[Any], like: Sequence[Any], what: str, kind: str, sample: SampleCall
) -> tuple[str, str, str] | None:
    for is_wrong in _MISTAKES:
        for place, (value, right) in enumerate(zip(returned, like, strict=False)):
            if isinstance(right, torch.Tensor) and is_wrong(value, right):
                said = f"{what} {kind} {place} of {sample.label}"
                return said, _described(value), f"{_described(right)}, as {kind} {place} is"
    return None


def _described(value: Any) -> str:
    if value is None:
        return "None"
    return f"a tensor {list(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
