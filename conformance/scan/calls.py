"""What a call gives, and what it changes in place."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from conformance.scan import vocabulary as known
from conformance.scan.model import Confidence, weakest
from conformance.scan.names import dotted
from conformance.scan.values import PLAIN, Kind, Value, fresh, joined, opaque, sequence, several

if TYPE_CHECKING:
    from conformance.scan.expressions import Expressions

FUNCTIONAL = ("torch.", "torch.nn.functional.", "torch.Tensor.")
#: They change what a tensor object stands for, and give it back.
RESHAPERS = frozenset({"set_", "resize_", "resize_as_", "detach_"})
DISTRIBUTED = ("torch.distributed.", "torch.distributed.distributed_c10d.")


def cut_off(value: Value, line: int) -> Value:
    """The same memory, without its graph."""
    cuts = value.cuts | {line} if value.derives else value.cuts
    return replace(
        value, kind="tensor", sure=value.sure if value.is_tensor else "likely", derives=frozenset(), cuts=cuts
    )


def call(expressions: Expressions, node: ast.Call) -> Value:
    """What a call gives; what it changes is noted on the way."""
    full = expressions.names.full(node.func)
    arguments = [expressions.value(argument) for argument in node.args]
    keywords = {keyword.arg: expressions.value(keyword.value) for keyword in node.keywords}
    if "out" in keywords and full.startswith("torch."):
        expressions.change(node, keywords["out"], f"out= of {full}")
    for prefix in DISTRIBUTED:
        name = full.removeprefix(prefix)
        if full.startswith(prefix) and name in known.COLLECTIVES_IN_PLACE:
            return _collective(expressions, node, name, arguments, keywords)
    everything = [*arguments, *keywords.values()]
    if isinstance(node.func, ast.Name) and not expressions.names.is_imported(node.func.id):
        return _builtin(node.func.id, everything)
    for prefix in reversed(FUNCTIONAL):
        name = full.removeprefix(prefix)
        if full.startswith(prefix) and "." not in name:
            return _function(expressions, node, name, everything)
    if isinstance(node.func, ast.Attribute) and not _of_module(expressions, node.func):
        return _method(expressions, node, node.func, everything)
    return opaque(*everything)


def _collective(
    expressions: Expressions,
    node: ast.Call,
    name: str,
    arguments: list[Value],
    keywords: dict[str | None, Value],
) -> Value:
    targets = arguments[:1] or [keywords[key] for key in keywords if key in known.COLLECTIVE_KEYWORDS]
    for target in targets:
        if name in known.INTO_LISTS and not target.is_sequence:
            continue
        expressions.change(node, target, f"torch.distributed.{name}")
    return opaque(*arguments, *keywords.values())


def _builtin(name: str, everything: list[Value]) -> Value:
    if name in known.PLAIN_BUILTINS:
        return PLAIN
    if name in {"tuple", "list"}:
        return _sequence("tuple" if name == "tuple" else "list", everything)
    if everything and all(value.is_sequence for value in everything):
        first = everything[0].each
        match name:
            case "zip":
                return several("list", sequence("tuple", [value.each for value in everything]))
            case "enumerate":
                return several("list", sequence("tuple", [PLAIN, first]))
            case "reversed":
                return several("list", first)
    return opaque(*everything)


def _sequence(kind: Kind, everything: list[Value]) -> Value:
    """``tuple(...)`` or ``list(...)``."""
    if not everything:
        return sequence(kind, [])
    known_items = len(everything) == 1 and everything[0].is_sequence
    return replace(everything[0], kind=kind) if known_items else several(kind, opaque(*everything))


def _function(expressions: Expressions, node: ast.Call, name: str, everything: list[Value]) -> Value:
    first = everything[0] if everything else PLAIN
    if _changes(name):
        expressions.change(node, first, f"torch.{name}")
        return first
    if name in known.SPLITTERS:
        return several("tuple", replace(_as_tensor(first), derives=first.derives))
    if name in known.VIEW_METHODS:
        return _as_tensor(first)
    if name in known.MAYBE_METHODS:
        return replace(_as_tensor(first), alias=weakest(first.alias, "likely"))
    if name == "detach":
        return cut_off(first, node.lineno)
    if name in known.FLAT:
        return fresh()
    return fresh(*everything) if name in known.MAKERS else opaque(*everything)


def _method(expressions: Expressions, node: ast.Call, function: ast.Attribute, everything: list[Value]) -> Value:
    name, base = function.attr, expressions.value(function.value)
    if base.is_sequence:
        return _list_method(expressions, function, base, everything)
    if name in known.PLAIN_METHODS:
        return PLAIN
    of_ctx = isinstance(function.value, ast.Name) and function.value.id == expressions.ctx
    return opaque(*everything) if base.kind == "plain" or of_ctx else _of_tensor(expressions, node, base, everything)


def _of_tensor(expressions: Expressions, node: ast.Call, base: Value, everything: list[Value]) -> Value:
    """A method of what is a tensor, or may be one."""
    assert isinstance(node.func, ast.Attribute)
    name = node.func.attr
    proven = base.is_tensor or name not in known.SHARED_METHODS
    if name in RESHAPERS:
        return base
    if name == "copy_" and len(node.args) == 1 and ast.dump(node.args[0]) == ast.dump(node.func.value):
        return base  # onto itself
    if _changes(name):
        sure = base.sure if base.is_tensor else "likely"
        expressions.change(node, replace(base, sure=sure), f".{name}()")
        return replace(base, kind="tensor", sure=sure, derives=base.derives | opaque(*everything).derives)
    if name in {"detach", "numpy"} and (base.is_tensor or base.shares):
        return cut_off(base, node.lineno)
    if name in known.SPLITTERS and base.is_tensor:
        return several("tuple", base)
    if name in known.VIEW_METHODS | known.MAYBE_METHODS and proven:
        alias: Confidence = "certain" if name in known.VIEW_METHODS else "likely"
        return replace(_as_tensor(base), alias=weakest(base.alias, alias))
    if name in known.FRESH_METHODS and proven:
        sources = () if name in known.FLAT else (base, *everything)
        return fresh(*sources, sure=base.sure if base.is_tensor else "likely")
    return opaque(base, *everything)


def _list_method(expressions: Expressions, function: ast.Attribute, base: Value, everything: list[Value]) -> Value:
    if function.attr in {"append", "extend", "insert"} and isinstance(function.value, ast.Name) and everything:
        new = everything[-1]
        if function.attr == "extend" and new.is_sequence:
            new = new.each
        held = [base.each] if base.items is None or base.items else []
        expressions.env[function.value.id] = several(base.kind, joined(*held, new))
        return PLAIN
    if function.attr in {"pop", "get"}:
        return base.each
    return PLAIN if function.attr in {"index", "count", "clear", "sort", "reverse"} else opaque(base, *everything)


def _of_module(expressions: Expressions, function: ast.Attribute) -> bool:
    """Whether this is a function of an imported module, such as ``math.sqrt``, and no method of a value."""
    head = (dotted(function) or "").partition(".")[0]
    return expressions.names.is_imported(head) and head not in expressions.env


def _changes(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and len(name) > 2 and name not in known.NOT_IN_PLACE


def _as_tensor(value: Value) -> Value:
    return value if value.is_tensor else replace(value, kind="tensor", sure="likely", items=None, element=None)
