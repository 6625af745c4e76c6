"""Evaluate the collectives of ``torch.distributed``: what they write into."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.values import Value, without_graph
from conformance.scan.vocabulary import (
    COLLECTIVE_KEYWORDS,
    COLLECTIVES,
    COLLECTIVES_IN_PLACE,
    INTO_LISTS,
    MAYBE_METHODS,
    RECEIVERS,
)

MODULES = ("torch.distributed.distributed_c10d.", "torch.distributed.")


def module_function(full: str) -> str:
    """Return the function of ``torch.distributed`` with this full name; empty if there is none.

    >>> module_function("torch.distributed.get_rank")
    'get_rank'
    """
    for module in MODULES:
        if full.startswith(module):
            return full.removeprefix(module)
    return ""


def collective(full: str) -> str:
    """Do what :func:`module_function` does, for collectives that write into their arguments."""
    name = module_function(full)
    return name if name in COLLECTIVES_IN_PLACE else ""


def any_collective(full: str) -> str:
    """Do what :func:`collective` does, also for collectives that write into no argument."""
    name = module_function(full)
    return name if name in COLLECTIVES else ""


def targets(node: ast.Call, name: str) -> Iterator[tuple[int | str, ast.expr]]:
    """Yield each argument that is written into: its place, and its expression."""
    if node.args:
        yield 0, node.args[0]
        return
    for keyword in node.keywords:
        if keyword.arg in COLLECTIVE_KEYWORDS:
            yield keyword.arg, keyword.value


def writes(name: str, value: Value) -> bool:
    """Tell whether the collective writes into this value; a list of tensors cannot be an input."""
    return name not in INTO_LISTS or value.is_sequence


def is_lost(target: ast.expr) -> bool:
    """Tell whether the target may be a copy that is then lost, as in ``all_reduce(x.contiguous())``."""
    return isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.func.attr in MAYBE_METHODS


def exchanged(value: Value, line: int, name: str) -> Value:
    """Return the target afterwards: no graph leads from it to the ranks' inputs."""
    return value if name in RECEIVERS else without_graph(value, line, f"torch.distributed.{name}")
