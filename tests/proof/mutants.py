"""Mechanical mutants of the reference: one small change each, made on the syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """A changed module: where, what was changed, and the whole new source."""

    module: str
    line: int
    change: str
    before: str
    source: str

    @property
    def name(self) -> str:
        """Stable as long as the line stands as it is."""
        return f"{self.module}:{self.line}: {self.change}: {self.before}"


def mutants(file: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of the syntax tree."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for place, node in enumerate(ast.walk(tree)):
        for change, mutated in _changes(tree, node, place):
            line = getattr(node, "lineno", 0)
            before = source.splitlines()[line - 1].strip() if line else ""
            yield Mutant(file.stem, line, change, before, ast.unparse(ast.fix_missing_locations(mutated)))


def _changes(tree: ast.Module, node: ast.AST, place: int) -> Iterator[tuple[str, ast.Module]]:
    """Every change that can be made at one node, each on a copy of the tree."""
    for change, alter in _alterations(node):
        mutated = copy.deepcopy(tree)
        twin = next(found for number, found in enumerate(ast.walk(mutated)) if number == place)
        alter(twin)
        yield change, mutated


def _alterations(node: ast.AST) -> Iterator[tuple[str, object]]:
    match node:
        case ast.BinOp(op=op) if type(op) in SWAPS:
            yield _named("swap operator", op), _set("op", SWAPS[type(op)])
        case ast.BoolOp(op=op):
            yield _named("swap operator", op), _set("op", SWAPS[type(op)])
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield _named("swap comparison", op), lambda twin, op=op: setattr(twin, "ops", [SWAPS[type(op)]()])
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "drop sign or not", lambda twin: setattr(twin, "op", ast.UAdd() if isinstance(twin.op, ast.USub) else twin.op) or _drop_not(twin)
        case ast.Constant(value=bool() as value):
            yield "turn truth value", lambda twin: setattr(twin, "value", not twin.value)
        case ast.Constant(value=int() as value):
            yield f"{value} becomes {value + 1}", lambda twin: setattr(twin, "value", twin.value + 1)
        case ast.FunctionDef(decorator_list=[_, *_]) if not _is_static(node):
            yield "drop decorator", lambda twin: setattr(twin, "decorator_list", twin.decorator_list[1:])
        case ast.If():
            yield "never take the branch", lambda twin: setattr(twin, "test", ast.Constant(False))
            yield "always take the branch", lambda twin: setattr(twin, "test", ast.Constant(True))
        case ast.IfExp():
            yield "swap the two values", lambda twin: (lambda body, orelse: (setattr(twin, "body", orelse), setattr(twin, "orelse", body)))(twin.body, twin.orelse)
        case ast.Return(value=ast.Tuple(elts=[_, _, *_])):
            yield "turn the returned tuple", lambda twin: twin.value.elts.reverse()
            yield "drop the last returned value", lambda twin: twin.value.elts.pop()
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "return None", lambda twin: setattr(twin, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield "drop call", lambda twin: setattr(twin, "value", ast.Constant(None))
        case ast.Assign(targets=[ast.Attribute()]):
            yield "drop assignment", lambda twin: setattr(twin, "value", ast.Constant(None))
    match node:
        case ast.Call(func=ast.Attribute(attr=("contiguous" | "clone" | "detach" | "view_as" | "reshape") as name)):
            yield f"drop .{name}()", lambda twin: _forward_call(twin)


def _forward_call(twin: ast.Call) -> None:
    """``x.clone()`` becomes ``(x)``: a call of the identity keeps the node a call."""
    assert isinstance(twin.func, ast.Attribute)
    identity = ast.parse("(lambda value, *_, **__: value)", mode="eval").body
    twin.args = [twin.func.value, *twin.args]
    twin.func = identity


def _drop_not(twin: ast.UnaryOp) -> None:
    if isinstance(twin.op, ast.Not):
        # `not x` becomes `not not x`.
        twin.operand = ast.UnaryOp(ast.Not(), twin.operand)


def _set(field: str, kind: type[ast.AST]) -> object:
    return lambda twin: setattr(twin, field, kind())


def _named(change: str, op: ast.AST) -> str:
    return f"{change} {type(op).__name__}"


def _is_static(node: ast.FunctionDef) -> bool:
    first = node.decorator_list[0]
    return isinstance(first, ast.Name) and first.id in {"staticmethod", "classmethod", "property"}
