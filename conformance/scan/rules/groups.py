"""Find ranks of the world used in place of ranks of a process group."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.exchanges import any_collective, module_function
from conformance.scan.model import Finding
from conformance.scan.study import Study


def world_rank(study: Study) -> Iterator[Finding]:
    """Find backwards that exchange within a group, but pick their part by ``get_rank()`` of the world."""
    backward = study.backward
    if backward is None or not any(_within_group(study, node) for node in ast.walk(backward.method)):
        return
    names = {
        target.id
        for node in ast.walk(backward.method)
        if isinstance(node, ast.Assign) and _is_world_rank(study, node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(backward.method):
        if isinstance(node, ast.Subscript) and _picks(study, node.slice, names):
            message = (
                "picks this rank's part by its rank in the world; in a smaller group that is another one's, or none"
            )
            yield study.finding("Function.backward.gradient", "likely", node.lineno, message)
            return


def _within_group(study: Study, node: ast.AST) -> bool:
    """Tell whether this is a collective with a group argument."""
    if not isinstance(node, ast.Call) or not any_collective(study.names.full(node.func)):
        return False
    groups = [keyword.value for keyword in node.keywords if keyword.arg == "group"]
    return any(not (isinstance(group, ast.Constant) or _is_world(study, group)) for group in groups)


def _is_world(study: Study, group: ast.expr) -> bool:
    return study.names.full(group).endswith("group.WORLD")


def _is_world_rank(study: Study, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return False
    return module_function(study.names.full(node.func)) == "get_rank"


def _picks(study: Study, index: ast.expr, names: set[str]) -> bool:
    return _is_world_rank(study, index) or (isinstance(index, ast.Name) and index.id in names)
