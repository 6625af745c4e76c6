"""What a test tells of the names in it, on the branch that it leads to."""

from __future__ import annotations

import ast

from conformance.scan.values import NONE, PLAIN, Value


def narrowed(test: ast.expr, outcome: bool) -> dict[str, Value]:
    """Names that are known to be None, or no tensor, when ``test`` came out like this.

    >>> narrowed(ast.parse("isinstance(n, int)", mode="eval").body, True)["n"].kind
    'plain'
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return narrowed(operand, not outcome)
        case ast.BoolOp(op=operator, values=values) if isinstance(operator, ast.And) is outcome:
            return {name: value for part in values for name, value in narrowed(part, outcome).items()}
        case ast.Compare(left=ast.Name(id=name), ops=[operator], comparators=[ast.Constant(value=None)]):
            return {name: NONE} if isinstance(operator, ast.Is) is outcome and _is_test(operator) else {}
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
            return {name: PLAIN} if _has_tensor(kind) is not outcome else {}
        case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=name)]):
            return {} if outcome else {name: PLAIN}
    return {}


def _is_test(operator: ast.cmpop) -> bool:
    return isinstance(operator, ast.Is | ast.IsNot)


def _has_tensor(kind: ast.expr) -> bool:
    """Whether a tensor may be an instance of what is named here."""
    words = [_last(node) for node in ast.walk(kind)]
    return any(
        word and word not in {"int", "float", "bool", "str", "list", "tuple", "dict", "Number", "Real"}
        for word in words
    )


def _last(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=word) | ast.Name(id=word):
            return word
    return ""
