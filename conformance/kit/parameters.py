"""Whether a method can be called with what PyTorch hands it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.kit.deviations import Deviation

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
