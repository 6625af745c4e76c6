"""Properties that are computed once, also if ranks are threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


class Once(Generic[_Result]):
    """A property that is computed once for each object.

    ``functools.cached_property`` of Python 3.11 has one lock for all objects. Simulated ranks are threads: one would
    hold it in a collective that the others never enter, because they wait for the lock.
    """

    def __init__(self, find: Callable[[Any], _Result]) -> None:
        """Store the function that computes it."""
        self.find = find
        self.__doc__ = find.__doc__

    def __get__(self, owner: Any, kind: type) -> _Result:
        """Compute it, or return the stored value."""
        known = vars(owner)  # where Python looks first from now on
        name = self.find.__name__
        if name not in known:
            known[name] = self.find(owner)
        found: _Result = known[name]
        return found
