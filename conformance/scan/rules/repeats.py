"""Find what a first backward pass takes away from a second one over the same graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.model import Confidence, Finding
from conformance.scan.study import Study

CLAUSE = "Function.backward.repeatable"


def taken_away(study: Study) -> Iterator[Finding]:
    """Find attributes of ctx that backward reads, and deletes or sets to None: the next pass lacks them."""
    backward = study.backward
    if backward is None:
        return
    ctx = backward.takes.ctx
    read = {name for node in ast.walk(backward.method) for name in _loaded(node, ctx)}
    tested = {name for node in ast.walk(backward.method) if isinstance(node, ast.If) for name in _read(node.test, ctx)}
    for line, name, sure in _removals(backward.method, ctx):
        if name in read - tested:
            yield study.finding(CLAUSE, sure, line, f"{backward.method.name} deletes ctx.{name} after reading it")
            return


def saved_changed(study: Study) -> Iterator[Finding]:
    """Find saved tensors that backward changes in place: the next pass reads other values, or is refused."""
    backward = study.backward
    if backward is None:
        return
    for change in backward.trace.changes:
        if change.shares == {"saved"} and change.confidence == "certain":
            yield study.finding(CLAUSE, "certain", change.line, f"changes a saved tensor in place, by {change.how}")
            return


def _removals(method: ast.FunctionDef, ctx: str) -> Iterator[tuple[int, str, Confidence]]:
    """Yield attributes of ctx that are deleted or set to None, and whether that happens on every path."""
    always = {id(statement) for statement in method.body}
    for node in ast.walk(method):
        match node:
            case ast.Delete(targets=targets) | ast.Assign(targets=targets, value=ast.Constant(value=None)):
                for target in targets:
                    if isinstance(target, ast.Attribute) and _of(target, ctx):
                        yield target.lineno, target.attr, "certain" if id(node) in always else "likely"


def _read(test: ast.expr, ctx: str) -> set[str]:
    return {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute) and _of(node, ctx)}


def _loaded(node: ast.AST, ctx: str) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _of(node, ctx):
        yield node.attr


def _of(node: ast.Attribute, ctx: str) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == ctx
