"""Tuples and lists: put together, repeated, indexed."""

from __future__ import annotations

import ast
from typing import Any

from conformance.scan.values import Value, joined, sequence, several


def concatenated(left: Value, right: Value) -> Value:
    """The sum of two tuples."""
    if left.items is not None and right.items is not None:
        return sequence("tuple", [*left.items, *right.items])
    return several("tuple", joined(left.each, right.each))


def repeated(listed: Value, times: ast.expr) -> Value:
    """A sequence times a number."""
    if (
        isinstance(times, ast.Constant)
        and isinstance(times.value, int)
        and times.value < 1000
        and listed.items is not None
    ):
        return sequence(listed.kind, list(listed.items) * times.value)
    return several(listed.kind, listed.each)


def item(value: Value, index: ast.expr) -> Value:
    """What indexing a sequence gives: one of its items, or a part of it."""
    if value.items is None:
        return several(value.kind, value.each) if isinstance(index, ast.Slice) else value.each
    try:
        place = ast.literal_eval(index)
        if isinstance(place, int):
            return value.items[place]
    except (ValueError, TypeError, IndexError, SyntaxError, RecursionError):
        pass
    if isinstance(index, ast.Slice):
        try:
            bounds: list[Any] = [part and ast.literal_eval(part) for part in (index.lower, index.upper, index.step)]
            return sequence(value.kind, list(value.items[slice(*bounds)]))
        except (ValueError, TypeError, SyntaxError, RecursionError):
            return several(value.kind, value.each)
    return value.each


def is_basic(index: ast.expr) -> bool:
    """Whether indexing a tensor with this gives a view: numbers, slices, None, dots do; masks copy.

    >>> [is_basic(ast.parse(text, mode="eval").body) for text in ("-1", "~mask", "-order")]
    [True, False, False]
    """
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(part, ast.Slice) or _is_fixed(part) for part in parts)


def _is_fixed(part: ast.expr) -> bool:
    """Whether this is a number, None or dots; what a sign or ``~`` stands before may be a tensor."""
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub | ast.UAdd):
        part = part.operand
    return isinstance(part, ast.Constant) and not isinstance(part.value, bool)
