"""Watch the static methods of a class: what they are given and return, and calls that their parameters do not allow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.kit.deviations import Deviation, need
from conformance.kit.stand_ins import standing_in
from conformance.kit.subject import Subject

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class ParameterMismatch:
    """One call that a method's parameters do not allow: how many values it takes, and got, and what Python says."""

    takes: str
    given: int
    words: str

    def accusing(self, name: str, expected: str) -> Deviation:
        """The deviation of a method of this name, which should take the expected values."""
        actual = f"{self.takes}; Python says: {self.words}"
        return Deviation(f"{name}: how many values it takes", actual, f"{self.given}: {expected}")


def parameter_mismatch(
    error: Exception, method: Callable[..., Any], *args: Any, **kwargs: Any
) -> ParameterMismatch | None:
    """Say why a method rejected a call; None if its parameters accept these arguments, or are unknown.

    >>> def backward(ctx, one, other=0): ...
    >>> parameter_mismatch(TypeError("no"), backward, "ctx").takes
    '2 to 3'
    >>> parameter_mismatch(TypeError("no"), backward, "ctx", 1.0)
    """
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # nobody knows
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        named = [each for each in signature.parameters.values() if each.kind in _BY_PLACE]
        needed = sum(each.default is each.empty for each in named)
        takes = f"{needed}" if needed == len(named) else f"{needed} to {len(named)}"
        return ParameterMismatch(takes, len(args), f"{type(error).__name__}: {error}")
    return None


@dataclass(frozen=True)
class Noted:
    """One call of a static method."""

    args: tuple[Any, ...]
    returned: Any


@dataclass(frozen=True)
class Notes:
    """All calls so far, by the method's name, and those that its parameters did not allow."""

    calls: dict[str, list[Noted]] = field(default_factory=dict)
    refused: list[ParameterMismatch] = field(default_factory=list)

    def of(self, member: str) -> list[Noted]:
        """The calls of one method, oldest first."""
        return self.calls.get(member, [])


def recording(subject: Subject, *members: str) -> tuple[Subject, Notes]:
    """Return the subject with a subclass that records calls of those ``members`` that the class defines."""
    need(subject.function is not None, "a plain callable: it has no methods to watch")
    notes = Notes()
    replaced = {
        member: _noting(getattr(subject.function, member), notes.calls.setdefault(member, []), notes.refused)
        for member in members
        if subject.defines(member)
    }
    return subject.overriding(**replaced), notes


def _noting(original: Callable[..., Any], calls: list[Noted], refusals: list[ParameterMismatch]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        try:
            returned = original(*args, **kwargs)
        except Exception as error:
            if found := parameter_mismatch(error, original, *args, **kwargs):
                refusals.append(found)
            raise
        calls.append(Noted(args, returned))
        return returned

    return standing_in(original, noted)
