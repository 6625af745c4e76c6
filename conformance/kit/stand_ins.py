"""Replace a method of a class by one that looks the same to PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_ABSENT = object()


@dataclass(frozen=True)
class StandIn:
    """A replaced member of a class: the class, the name, the replacement, and the class's own."""

    owner: type
    name: str
    member: Any
    own: Any

    def put(self) -> None:
        """Put it in its place."""
        setattr(self.owner, self.name, self.member)

    def take_away(self) -> None:
        """Restore the original."""
        if self.own is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.own)


#: The stand-ins in place, in the order in which they came.
_in_place: list[StandIn] = []


@contextmanager
def replaced(owner: type, name: str, member: Any) -> Iterator[None]:
    """Replace a member of a class while the block runs."""
    stand_in = StandIn(owner, name, member, vars(owner).get(name, _ABSENT))
    stand_in.put()
    _in_place.append(stand_in)
    try:
        yield
    finally:
        _in_place.remove(stand_in)
        stand_in.take_away()


def taken_down() -> list[StandIn]:
    """Remove every stand-in for a while and return them, because another rank of this process runs."""
    found = list(_in_place)
    for stand_in in reversed(found):
        stand_in.take_away()
    _in_place.clear()
    return found


def put_up(stand_ins: Sequence[StandIn]) -> None:
    """Restore stand-ins that were removed."""
    for stand_in in stand_ins:
        stand_in.put()
    _in_place[:] = stand_ins


def standing_in(original: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that does the same as ``method``, with the name and the parameters of ``original``.

    PyTorch looks them up in the code of forward, to find the place of what ``apply`` was given by name.

    >>> def forward(ctx, x, scale=1.0):
    ...     return x * scale
    >>> made = standing_in(forward, lambda *args, **kwargs: "watched")
    >>> made.__name__, made.__code__.co_varnames, made(None, 1, scale=2.0)
    ('forward', ('ctx', 'x', 'scale'), 'watched')
    """
    made: Any = functools.wraps(original)(functools.partial(method))
    code = getattr(original, "__code__", None)
    if code is not None:
        made.__code__ = code
    found: Callable[..., Any] = made
    return found
