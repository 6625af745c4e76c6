"""What is put in the place of a static method of a Function, and looks like it to PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def standing_in(original: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """A callable that does what ``method`` does, and has the name and the parameters of ``original``.

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
