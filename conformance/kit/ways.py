"""Other ways to call with a sample: under a mode, or inside a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from conformance.kit.calls import Case


def by_way_of(case: Case, way: Callable[..., Any]) -> Case:
    """The sample's call made as ``way(call, *args)``."""
    call = case.subject
    through = replace(call, call=lambda target, *args: way(call, *args), result=None, dim=0)
    return replace(case, subject=through)


def under(case: Case, mode: Callable[[], AbstractContextManager[Any]]) -> Case:
    """The sample's call made under a mode. Its arguments are made outside, as a module's parameters are."""

    def way(call: Callable[..., Any], *args: Any) -> Any:
        with mode():
            return call(*args)

    return by_way_of(case, way)
