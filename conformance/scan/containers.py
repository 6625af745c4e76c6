"""Tuples, lists and dicts: put together, repeated, indexed, and changed by their methods."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from conformance.scan.values import PLAIN, Value, joined, mapping, opaque, sequence, several

GROWERS = frozenset({"append", "extend", "insert"})
#: After these methods an item may have moved, or be gone.
MIXERS = frozenset({"pop", "remove", "sort"})
PLAIN_METHODS = GROWERS | {"index", "count", "clear", "sort", "reverse", "remove", "update", "keys"}


def concatenated(left: Value, right: Value) -> Value:
    """Return the sum of two tuples."""
    if left.items is not None and right.items is not None:
        return sequence("tuple", [*left.items, *right.items])
    return several("tuple", joined(left.each, right.each))


def repeated(listed: Value, times: ast.expr) -> Value:
    """Return a sequence times a number."""
    if (
        isinstance(times, ast.Constant)
        and isinstance(times.value, int)
        and times.value < 1000
        and listed.items is not None
    ):
        return sequence(listed.kind, list(listed.items) * times.value)
    return several(listed.kind, listed.each)


def changed(name: str, base: Value, everything: list[Value]) -> Value:
    """Return a list or dict after this method; ``base`` itself if the method changes nothing."""
    if name in GROWERS and everything and base.kind == "list":
        new = everything[-1]
        if name == "extend" and new.is_sequence:
            new = new.each
        held = [base.each] if base.items is None or base.items else []
        return several(base.kind, joined(*held, new))
    if name == "clear":
        return sequence(base.kind, [])
    if name == "reverse" and base.items:
        return replace(base, items=base.items[::-1])
    if name in MIXERS and base.items and base.kind == "list":
        return several(base.kind, base.each)
    if name in {"update", "setdefault"} and base.kind == "dict":
        return with_more(base, [part for new in everything for part in (new.parts if new.is_container else (new,))])
    return base


def with_more(base: Value, new: list[Value]) -> Value:
    """Return a dict that may also hold these values, under unknown keys."""
    return sequence("dict", [*base.parts, *new])


def stored(base: Value, index: ast.expr, value: Value) -> Value:
    """Return a dict with a value set under a key."""
    if isinstance(index, ast.Constant) and base.items is not None and len(base.keys) == len(base.items):
        return mapping({**dict(zip(base.keys, base.items, strict=True)), index.value: value})
    return with_more(base, [value])


def method(name: str, base: Value, everything: list[Value]) -> Value:
    """Return the result of a method of a list or dict."""
    if name == "items" and base.kind == "dict":
        return several("list", sequence("tuple", [PLAIN, base.each]))
    if name == "values" and base.kind == "dict":
        return replace(base, kind="list", keys=())
    if name == "copy":
        return base
    if name in {"pop", "get", "setdefault"}:
        return base.each
    return PLAIN if name in PLAIN_METHODS else opaque(base, *everything)


def at(value: Value, index: ast.expr) -> int | None:
    """Find the item of a container that an index means; None if that is unclear."""
    try:
        place = ast.literal_eval(index)
        if value.kind == "dict":
            return value.keys.index(place)
        if isinstance(place, int) and value.items is not None:
            return range(len(value.items))[place]
    except (ValueError, TypeError, IndexError, SyntaxError, RecursionError):
        pass
    return None


def item(value: Value, index: ast.expr) -> Value:
    """Index a container: return one of its items, or a part of it."""
    if value.items is None:
        return several(value.kind, value.each) if isinstance(index, ast.Slice) else value.each
    place = at(value, index)
    if place is not None:
        return value.items[place]
    if isinstance(index, ast.Slice):
        try:
            bounds: list[Any] = [part and ast.literal_eval(part) for part in (index.lower, index.upper, index.step)]
            return sequence(value.kind, list(value.items[slice(*bounds)]))
        except (ValueError, TypeError, SyntaxError, RecursionError):
            return several(value.kind, value.each)
    return value.each


def is_basic(index: ast.expr) -> bool:
    """Tell whether indexing a tensor with this returns a view: numbers, slices, None and dots do; masks copy.

    >>> [is_basic(ast.parse(text, mode="eval").body) for text in ("-1", "~mask", "-order")]
    [True, False, False]
    """
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(part, ast.Slice) or _is_fixed(part) for part in parts)


def _is_fixed(part: ast.expr) -> bool:
    """Tell whether this is a number, None or dots; an operand of a sign or ``~`` may be a tensor."""
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub | ast.UAdd):
        part = part.operand
    return isinstance(part, ast.Constant) and not isinstance(part.value, bool)
