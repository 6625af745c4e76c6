"""Find the plain functions of a package by the names under which its methods call them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from conformance.scan.classes import HARMLESS
from conformance.scan.names import top_level
from conformance.scan.source import Module

#: How many re-exports of a name are followed.
HANDED_ON = 5


@dataclass(frozen=True)
class Helper:
    """A function at the top of a module, and that module."""

    module: Module
    node: ast.FunctionDef


class Helpers:
    """Finds the function that a call means, in the same file or in another one of the package."""

    def __init__(self, module_named: Callable[[str], Module | None]) -> None:
        self._module_named = module_named

    def find(self, module: Module, full: str, depth: int = HANDED_ON) -> Helper | None:
        """Return the helper that ``full`` names in ``module``; None if that is unclear, or it cannot be followed."""
        if not full or (full.startswith("torch.") and not module.name.startswith("torch")):
            return None
        source, _, name = full.rpartition(".")
        if not source:
            return _followable(module, name)
        other = self._module_named(source) if depth else None
        if other is None:
            return None
        if other.names.is_imported(name):
            return self.find(other, other.names.full(ast.Name(name)), depth - 1)
        return _followable(other, name)


def _followable(module: Module, name: str) -> Helper | None:
    """Return the only function of that name, if a call runs its body directly."""
    found = functions(module).get(name, [])
    if len(found) != 1 or any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(found[0])):
        return None
    decorators = [node.func if isinstance(node, ast.Call) else node for node in found[0].decorator_list]
    plain = all(module.names.full(node).rpartition(".")[2] in HARMLESS for node in decorators)
    return Helper(module, found[0]) if plain else None


@lru_cache(maxsize=256)
def functions(module: Module) -> dict[str, list[ast.FunctionDef]]:
    """Return the top-level functions of a module; several of one name if it is defined more than once."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in top_level(module.tree.body):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found
