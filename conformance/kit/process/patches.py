"""Detect patches of modules and classes, by the objects that their names refer to."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import is_
from typing import Any

import torch
import torch.distributed as dist

from conformance.core import joining, outcomes
from conformance.kit import attempt, deviations, expect, frames, seeds, world

#: What a Function has no business changing. Patched names are seen by the identity of what they hold.
PROTECTED = (
    builtins,
    os,
    torch,
    torch.Tensor,
    torch.autograd,
    torch.autograd.forward_ad,
    torch.autograd.function,
    torch.autograd.function.FunctionCtx,
    torch.autograd.function.FunctionMeta,
    torch.autograd.functional,
    torch.autograd.graph,
    torch.autograd.Function,
    dist,
    torch.func,
    torch.linalg,
    torch.nn.functional,
    torch.testing,
    torch.utils.checkpoint,
)
#: What the suite, and the rank that runs it, stand on: modules that keep nothing in their names that comes later.
LIBRARY = tuple(map(import_module, (
    "contextlib", "copy", "functools", "gc", "inspect", "io", "itertools", "json", "linecache", "math", "operator",
    "random", "re", "socket", "struct", "threading", "time", "traceback", "types", "weakref",
)))  # fmt: skip
SUITE = (joining, outcomes, attempt, deviations, expect, seeds, world)
#: Imported modules that must stay what they are: Python's own, torch's public ones, and under ``check`` whatever the
#: caller has imported by then.
MODULES = tuple(
    name
    for name in sys.modules
    if "._" not in name and name.count(".") < (3 if name.startswith("torch.") else 1) and not name.startswith("_")
)


class Names:
    """The names in some modules and classes, and the objects that they refer to."""

    def __init__(self, places: Sequence[Any]) -> None:
        self.places = places
        self.held = list(map(_held, places))

    def patched(self, after: Names) -> bool:
        """Whether a name refers to another object now."""
        return any(map(_patched, self.places, self.held, after.held))


def held_modules() -> list[Any]:
    """Return the entries of ``sys.modules`` for names that subjects import."""
    return list(map(sys.modules.get, MODULES))


#: The names of each place when it was last read.
_LAST: dict[int, dict[str, Any]] = {}


def _held(place: Any) -> dict[str, Any]:
    """Copy the names of a module or class; return the last copy if nothing has changed, as after most tests."""
    last, now = _LAST.get(id(place)), vars(place)
    if last is None or not _same(last, now):
        last = _LAST[id(place)] = dict(now)
    return last


def _same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return len(before) == len(after) and all(map(is_, before.values(), after.values()))


def _patched(place: Any, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a name refers to another object now. A lazy import only adds names, which is not a patch."""
    if before is after or _same(before, after):
        return False  # the usual case, quickly detected
    added = after.keys() - before.keys() if isinstance(place, type) else ()
    if any(name in vars(base) for name in added for base in place.__mro__[1:]):
        return True
    return any(after.get(name) is not held and not _by_torch(after.get(name)) for name, held in before.items())


def _by_torch(held: object) -> bool:
    """Whether torch itself made a function: its compiler wraps some when it is first imported."""
    made_in = getattr(getattr(held, "__code__", None), "co_filename", "")
    return hasattr(held, "__wrapped__") and made_in.startswith(frames.TORCH_FOLDER)
