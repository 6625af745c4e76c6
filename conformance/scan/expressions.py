"""Evaluate expressions as far as a scan can: which are tensors, what they share, what they depend on."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from conformance.scan import calls, containers, exchanges
from conformance.scan.cancelled import remaining
from conformance.scan.model import Confidence, weakest
from conformance.scan.names import Names, dotted
from conformance.scan.trace import Change, Kept, Trace
from conformance.scan.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Value,
    cut,
    cut_off,
    fresh,
    joined,
    mapping,
    opaque,
    relined,
    sequence,
    several,
    shifted,
)
from conformance.scan.vocabulary import PLAIN_ATTRIBUTES, VIEW_ATTRIBUTES

Environment = dict[str, Value]


@dataclass(frozen=True)
class Followed:
    """A helper that was walked through: what it does, and its arguments afterwards."""

    name: str
    trace: Trace
    value: Value
    arguments: list[Value]


#: Walks through a helper that is called with these values; None if it cannot be followed.
Follow = Callable[[ast.Call, str, list[Value], dict[str | None, Value]], Followed | None]


class Expressions:
    """Evaluates the expressions of one method; ``env`` holds what each name is at the moment."""

    def __init__(self, names: Names, ctx: str, env: Environment, trace: Trace, follow: Follow) -> None:
        self.names = names
        self.follow = follow
        self.ctx = ctx
        self.env = env
        self.trace = trace

    def value(self, node: ast.expr | None) -> Value:
        """Evaluate an expression."""
        if node is None:
            return NONE
        handler: Callable[[ast.expr], Value] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
        return handler(node) if handler else self._anything(node)

    def change(self, node: ast.AST, value: Value, how: str, confidence: Confidence = "certain") -> None:
        """Note an in-place change of a tensor that others may hold."""
        if value.is_container:
            value = value.each
        if value.shares:
            sure = weakest(value.sure, value.alias, confidence)
            self.trace.changes.append(Change(getattr(node, "lineno", 0), value.shares, sure, how))

    def _anything(self, node: ast.expr) -> Value:
        return opaque(*(self.value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)))

    def _constant(self, node: ast.Constant) -> Value:
        return NONE if node.value is None else replace(PLAIN, truth=bool(node.value))

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        return PLAIN

    def _lambda(self, node: ast.Lambda) -> Value:
        return UNKNOWN  # runs later, if ever

    def _name(self, node: ast.Name) -> Value:
        return self.env.get(node.id, UNKNOWN)

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.env[node.target.id] = self.value(node.value)
        return value

    def _items(self, node: ast.Tuple | ast.List | ast.Set, kind: str) -> Value:
        items: list[Value] = []
        known = True
        for part in node.elts:
            if isinstance(part, ast.Starred):
                inner = self.value(part.value)
                if inner.kind == "dict":
                    inner = UNKNOWN  # its keys
                known = known and inner.items is not None
                items += inner.items if inner.items is not None else [inner.each if inner.element else opaque(inner)]
            else:
                items.append(self.value(part))
        whole = sequence("tuple" if kind == "tuple" else "list", items)
        return whole if known else replace(whole, items=None, element=joined(*items))

    def _tuple(self, node: ast.Tuple) -> Value:
        return self._items(node, "tuple")

    def _list(self, node: ast.List) -> Value:
        return self._items(node, "list")

    def _set(self, node: ast.Set) -> Value:
        return self._items(node, "list")

    def _dict(self, node: ast.Dict) -> Value:
        values = [self.value(part) for part in node.values]
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        if len(keys) == len(values):
            return mapping(dict(zip(keys, values, strict=True)))
        held: list[Value] = []  # under unknown keys; of **other only its values count
        for key, value in zip(node.keys, values, strict=True):
            held += value.parts if key is None and value.is_container else (value,)
        return sequence("dict", held)

    def _boolop(self, node: ast.BoolOp) -> Value:
        return joined(*(self.value(part) for part in node.values))

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        return joined(self.value(node.body), self.value(node.orelse))

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.value(part) for part in (node.left, *node.comparators)]
        if any(value.is_tensor for value in values) and all(
            isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.NotEq) for operator in node.ops
        ):
            # A mask: no gradient flows through it.
            return Value("tensor", weakest(*(value.sure for value in values if value.is_tensor)))
        return PLAIN

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not) or (isinstance(node.op, ast.Invert) and value.kind == "plain"):
            return PLAIN
        copies = value.is_tensor and not isinstance(node.op, ast.UAdd)  # +x is x
        return fresh(value, sure=value.sure) if copies else value

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add) and "tuple" in {left.kind, right.kind}:
            return containers.concatenated(left, right)
        if isinstance(node.op, ast.Mult) and {left.kind, right.kind} & {"tuple", "list"}:
            return containers.repeated(*((left, node.right) if left.is_sequence else (right, node.left)))
        tensors = [value.sure for value in (left, right) if value.is_tensor]
        if tensors:
            # tensor + unknown may still be a type of the author's own, but arithmetic gives one value.
            result = fresh(left, right, sure=max(tensors, key=("possible", "likely", "certain").index))
            kept = remaining(node)
            if kept is not None:
                return replace(result, cuts=cut(*map(self.value, kept)))
            return replace(result, cuts=shifted(left, right)) if isinstance(node.op, ast.Add | ast.Sub) else result
        return PLAIN if left.kind == right.kind == "plain" else opaque(left, right)

    def _attribute(self, node: ast.Attribute) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id == self.ctx:
            saved = Value("tensor", "certain", frozenset({"saved"}), derives=frozenset({"saved"}))
            if node.attr in {"saved_tensors", "saved_variables"}:
                return several("tuple", saved)
            return self.env.get(f"{self.ctx}.{node.attr}", UNKNOWN)
        value = self.value(node.value)
        if node.attr in PLAIN_ATTRIBUTES:
            return PLAIN
        if node.attr == "data" and value.shares | value.derives:
            return cut_off(value, node.lineno, ".data")
        if node.attr == "values" and value.extreme:
            return value
        if node.attr in VIEW_ATTRIBUTES and value.is_tensor:
            return value
        return opaque(value)

    def _subscript(self, node: ast.Subscript) -> Value:
        value, index = self.value(node.value), self.value(node.slice)
        if value.is_container:
            return containers.item(value, node.slice)
        if not value.is_tensor:
            return replace(opaque(value, index), extreme=value.extreme)
        return value if containers.is_basic(node.slice) else fresh(value, sure=value.sure)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        outer = self.env
        self.env = dict(outer)
        for generator in node.generators:
            self.bind(generator.target, self.value(generator.iter), looped=True)
            for test in generator.ifs:
                self.value(test)
        element = self.value(node.elt)
        self.env = outer
        return several("list", element)

    _listcomp = _generatorexp = _setcomp = _comprehension

    def _call(self, node: ast.Call) -> Value:
        full = self.names.full(node.func)
        arguments = [self.value(argument) for argument in node.args]
        keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        exchange = exchanges.collective(full)
        if exchange:
            return self._exchange(node, exchange, arguments, keywords)
        followed = self.follow(node, full, arguments, keywords) if full.partition(".")[0] not in self.env else None
        if followed is not None:
            return self._after(node, followed, opaque(*arguments, *keywords.values()))
        function = node.func
        base = self.value(function.value) if isinstance(function, ast.Attribute) and self._of_value(function) else None
        if base is not None and base.is_container and isinstance(function, ast.Attribute):
            self._rearrange(node, function, base, [*arguments, *keywords.values()])
        bare = isinstance(function, ast.Name) and not self.names.is_imported(function.id)
        of_ctx = isinstance(function, ast.Attribute) and dotted(function.value) == self.ctx
        change = partial(self.change, node)
        return calls.call(calls.Site(node, full, base, arguments, keywords, bare, of_ctx, change))

    def _after(self, node: ast.Call, followed: Followed, given: Value) -> Value:
        """Record what a helper did, as if it had been done in the line of the call."""
        line, trace = node.lineno, followed.trace
        where = f" in {followed.name}()"
        self.trace.changes += [replace(change, line=line, how=change.how + where) for change in trace.changes]
        self.trace.lost += [replace(change, line=line, how=change.how + where) for change in trace.lost]
        self.trace.kept += [replace(kept, line=line) for kept in trace.kept]
        for argument, after in zip(node.args, followed.arguments, strict=False):
            if isinstance(argument, ast.Name) and argument.id in self.env:
                self.env[argument.id] = relined(after, given.cuts, line)
        return relined(followed.value, given.cuts, line)

    def _of_value(self, function: ast.Attribute) -> bool:
        """Tell whether this is a method of a value, not a function of a module, such as ``math.sqrt``."""
        head = (dotted(function) or "").partition(".")[0]
        return not self.names.is_imported(head) or head in self.env

    def _exchange(self, node: ast.Call, name: str, arguments: list[Value], keywords: dict[str | None, Value]) -> Value:
        """Evaluate a collective: note what it writes into, which no graph records."""
        for place, target in exchanges.targets(node, name):
            value = arguments[place] if isinstance(place, int) else keywords[place]
            if exchanges.writes(name, value):
                self.change(node, value, f"torch.distributed.{name}")
            if exchanges.is_lost(target) and value.shares:
                self.trace.lost.append(Change(node.lineno, value.shares, "likely", f"torch.distributed.{name}"))
            if isinstance(target, ast.Name) and opaque(*arguments, *keywords.values()).derives:
                self.env[target.id] = exchanges.exchanged(value, node.lineno, name)
        return opaque(*arguments, *keywords.values())

    def _rearrange(self, node: ast.Call, function: ast.Attribute, base: Value, everything: list[Value]) -> None:
        """Update a list or dict after a method that changes it."""
        after = containers.changed(function.attr, base, everything)
        if after is not base:
            self.put(node, function.value, after)

    def put(self, node: ast.stmt | ast.expr, place: ast.expr, value: Value) -> None:
        """Assign a name, or an attribute of ctx."""
        if isinstance(place, ast.Name):
            self.env[place.id] = value
        elif isinstance(place, ast.Attribute) and dotted(place.value) == self.ctx and self.ctx:
            self.env[f"{self.ctx}.{place.attr}"] = value
            self.trace.kept.append(Kept(node.lineno, place.attr, value))

    def bind(self, target: ast.expr, value: Value, looped: bool = False) -> None:
        """Assign a name, or unpack into names; if ``looped``, the value is any item of this one."""
        if value.kind == "dict" and (looped or not isinstance(target, ast.Name)):
            value = UNKNOWN  # its keys
        if looped:
            value = value.each if value.is_sequence else replace(value, items=None, element=None)
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, ast.Starred):
            self.bind(
                target.value,
                several("list", value.each if value.is_sequence else opaque(value)),
            )
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value)

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        starred = any(isinstance(target, ast.Starred) for target in targets)
        if value.items is not None and len(value.items) == len(targets) and not starred:
            for target, item in zip(targets, value.items, strict=True):
                self.bind(target, item)
            return
        each = value.each if value.is_sequence else opaque(value)
        for target in targets:
            self.bind(target, several("list", each) if isinstance(target, ast.Starred) else each)
