"""Other ways to call with a sample: under a mode, or inside a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from conformance.kit.calls import Case
from conformance.kit.witness import same_values


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


def works_in_place(case: Case) -> bool:
    """Whether a call changes its arguments: run again, it would start from what it left."""
    pairs = zip(case.values, case.run().values, strict=True)
    return any(isinstance(old, torch.Tensor) and not same_values(old.detach(), new) for old, new in pairs)
