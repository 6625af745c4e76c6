"""A subject whose class notes what its own static methods were given and what they returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.kit.deviations import need
from conformance.kit.parameters import ParameterMismatch, parameter_mismatch
from conformance.kit.stand_ins import standing_in
from conformance.kit.subject import Subject


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
