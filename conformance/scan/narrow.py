"""Narrow the names in a test on the branch that it leads to."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from conformance.scan.values import NONE, PLAIN, UNKNOWN, Value
from conformance.scan.vocabulary import NO_TENSORS

Known = Mapping[str, Value]


def narrowed(test: ast.expr, outcome: bool, known: Known) -> dict[str, Value]:
    """Return the names that are None, a tensor, or not a tensor, if ``test`` has this result.

    >>> narrowed(ast.parse("isinstance(n, int)", mode="eval").body, True, {})["n"].kind
    'plain'
    >>> narrowed(ast.parse("isinstance(x, torch.Tensor)", mode="eval").body, True, {})["x"].kind
    'tensor'
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return narrowed(operand, not outcome, known)
        case ast.BoolOp(op=operator, values=values) if isinstance(operator, ast.And) is outcome:
            return {name: value for part in values for name, value in narrowed(part, outcome, known).items()}
        case ast.Compare(left=ast.Name(id=name), ops=[operator], comparators=[ast.Constant(value=None)]):
            return {name: NONE} if isinstance(operator, ast.Is) is outcome and _is_test(operator) else {}
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
            if not outcome:
                return {name: PLAIN} if _names_tensor(kind) else {}
            held = known.get(name, UNKNOWN)
            if not _may_be_tensor(kind):
                return {} if held.is_container else {name: PLAIN}
            return {name: _tensor(held)} if _last(kind) in TENSORS else {}
        case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=name)]):
            return {name: _tensor(known.get(name, UNKNOWN)) if outcome else PLAIN}
    return {}


def decided(test: ast.expr, known: Known) -> bool | None:
    """Return the result of a test, if the known values of its names decide it.

    >>> decided(ast.parse("not flag", mode="eval").body, {"flag": Value("plain", truth=False)})
    True
    """
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id=name):
            return known.get(name, UNKNOWN).truth
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decided(operand, known)
            return None if inner is None else not inner
        case ast.BoolOp(op=joint, values=values):
            outcomes = [decided(value, known) for value in values]
            ends = isinstance(joint, ast.Or)
            return ends if ends in outcomes else (None if None in outcomes else not ends)
        case ast.Compare(left=ast.Name(id=name), ops=[operator], comparators=[ast.Constant(value=None)]):
            held = known.get(name, UNKNOWN)
            if held.truth is not None and _is_test(operator):
                return (held.kind == "none") is isinstance(operator, ast.Is)
    return None


TENSORS = ("Tensor", "Parameter")


def _tensor(value: Value) -> Value:
    """Return the value, now known to be a tensor."""
    return replace(value, kind="tensor", sure="certain", items=None, element=None, truth=None)


def _is_test(operator: ast.cmpop) -> bool:
    return isinstance(operator, ast.Is | ast.IsNot)


def _may_be_tensor(kind: ast.expr) -> bool:
    """Tell whether a tensor may be an instance of one of these classes."""
    return any(word not in NO_TENSORS for word in _words(kind))


def _names_tensor(kind: ast.expr) -> bool:
    """Tell whether every tensor is an instance of one of these classes; not so for an unknown class."""
    return "Tensor" in _words(kind)


def _words(kind: ast.expr) -> list[str]:
    """Return the last parts of the classes' names: one, or several in a tuple or a union."""
    match kind:
        case ast.Tuple(elts=parts):
            return [word for part in parts for word in _words(part)]
        case ast.BinOp(left=left, right=right):
            return [*_words(left), *_words(right)]
        case ast.Constant(value=None):
            return []
    return [_last(kind)]


def _last(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=word) | ast.Name(id=word):
            return word
    return ""
