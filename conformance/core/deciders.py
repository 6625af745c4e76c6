"""Find the kit's modules that decide a test, from its source: neither torch nor a test module is imported."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from conformance.core.catalog import SuiteTest

#: The packages and modules that decide what is right. Imports from elsewhere call the subject, and end tests.
DECIDING = (
    *(f"conformance.kit.{name}." for name in ("oracles", "numerics", "variations", "observation", "spmd", "gathers")),
    *(f"conformance.kit.{name}" for name in ("judged", "declared_elsewhere", "unwritten")),
)


def deciders(test: SuiteTest) -> tuple[str, ...]:
    """Return the modules whose names the body of a test uses, directly or by a function beside it."""
    functions, imported = _module(test.file)
    found, waiting, seen = set(), [test.function], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in functions:
            waiting += functions[name]
        elif name in imported:
            found.add(imported[name])
    return tuple(sorted(found))


@cache
def _module(file: Path) -> tuple[Mapping[str, list[str]], dict[str, str]]:
    """Return the names that each function and class of a test module uses, and the deciding modules they come from."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    functions = {
        node.name: [name for part in (*node.decorator_list, *node.body) for name in _names(part)]
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }  # assigned names are constants, and annotations decide nothing
    imported = {}
    for node in (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module):
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            is_module = (file.parents[2] / f"{whole.replace('.', '/')}.py").exists()
            module = whole if is_module else str(node.module)
            if module.startswith(DECIDING):
                imported[alias.asname or alias.name] = module
    return functions, imported


def _names(tree: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
