"""Simplify sums in which terms cancel: the result has only the graph of the other terms."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def remaining(node: ast.BinOp) -> list[ast.expr] | None:
    """Return the operands that remain after others cancel; None if none do.

    >>> def left(text):
    ...     return [ast.unparse(part) for part in remaining(ast.parse(text, mode="eval").body)]
    >>> left("2 * a - (b - a) + b"), left("0 * a"), left("a / a")
    (['2 * a', 'a'], [], [])
    """
    if isinstance(node.op, ast.Mult) and any(map(_is_zero, (node.left, node.right))):
        return []
    if isinstance(node.op, ast.Div) and ast.dump(node.left) == ast.dump(node.right):
        return []
    terms = list(_terms(node, adds=True))
    kept: list[tuple[ast.expr, bool]] = []
    for term, adds in terms:
        opposite = next((other for other in kept if other[1] != adds and ast.dump(other[0]) == ast.dump(term)), None)
        if opposite:
            kept.remove(opposite)
        else:
            kept.append((term, adds))
    return [term for term, _ in kept] if len(kept) < len(terms) else None


def _terms(node: ast.expr, adds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the terms of a sum, and whether each is added or subtracted."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left, adds)
        yield from _terms(node.right, adds == isinstance(node.op, ast.Add))
    else:
        yield node, adds


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in {int, float} and node.value == 0
