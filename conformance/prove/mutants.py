"""Mechanical mutants of the reference: one small change each, made on the syntax tree."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Alteration = Callable[[Any], None]

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
#: Methods whose call can be left out, so that what they are called on goes on as it is.
OPTIONAL_METHODS = {"contiguous", "clone", "detach", "view_as", "reshape"}
#: Decorators that PyTorch's or Python's own machinery asks for: without them the module does not load at all.
STRUCTURAL = {"staticmethod", "classmethod", "property"}


@dataclass(frozen=True)
class Mutant:
    """A changed module: where, what was changed, and the whole new source."""

    file: Path
    function: str
    line: int
    change: str
    before: str
    source: str
    occurrence: int = 1

    @property
    def module(self) -> str:
        """Its name, without the packages around it."""
        return self.file.parent.name if self.file.stem == "__init__" else self.file.stem

    @property
    def name(self) -> str:
        """Unique, and stable as long as the function stands as it is."""
        again = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.module}.{self.function}: {self.change}: {self.before}{again}"


def put(mutant: Mutant, package: str, folder: Path) -> None:
    """Write a mutant into a folder of the path; all other modules of its packages are found where they are.

    Args:
        mutant: the mutant.
        package: the dotted name of the package that it is in.
        folder: where to.
    """
    names = package.split(".")
    for name, real in zip(names, reversed(mutant.file.parents[: len(names)]), strict=True):
        folder /= name
        folder.mkdir()
        file = real / "__init__.py"
        text = mutant.source if file == mutant.file else file.read_text("utf-8") if file.is_file() else ""
        (folder / "__init__.py").write_text(_of_package(text, real), "utf-8")
    if not (folder / mutant.file.name).exists():
        (folder / mutant.file.name).write_text(mutant.source, "utf-8")


def _of_package(source: str, real: Path) -> str:
    """Return the source of a package that finds its modules in another folder, even while it is imported."""
    tree = ast.parse(source)
    first = int(ast.get_docstring(tree) is not None)
    first += sum(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    tree.body[first:first] = ast.parse(f"__path__.append({str(real)!r})").body
    return ast.unparse(tree)


def mutants(file: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of the source."""
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    tree = ast.parse(source)
    seen: Counter[Mutant] = Counter()
    for place, (function, node) in enumerate(_within(tree, "")):
        for change, alter in alterations(node):
            mutated = copy.deepcopy(tree)
            alter(next(twin for number, (_, twin) in enumerate(_within(mutated, "")) if number == place))
            line = getattr(node, "lineno", 1)
            text = ast.unparse(ast.fix_missing_locations(mutated))
            mutant = Mutant(file, function, line, change, lines[line - 1].strip(), text)
            alike = replace(mutant, line=0, source="")
            seen[alike] += 1
            yield replace(mutant, occurrence=seen[alike])


def _within(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node of a tree with the qualified name of the function or class that it stands in, or is.

    Words for people and types for checkers are left out: no behaviour hangs on them.
    """
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.arguments):
        return
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        function = f"{function}.{node.name}".lstrip(".")
    yield function, node
    for child in ast.iter_child_nodes(node):
        yield from _within(child, function)


def alterations(node: ast.AST) -> Iterator[tuple[str, Alteration]]:
    """Every change that can be made at one node: what it is called, and what makes it on a copy of the node."""
    match node:
        case ast.BinOp() | ast.BoolOp() if type(node.op) in SWAPS:
            yield f"swap {type(node.op).__name__}", _swap_operator
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield f"swap {type(op).__name__}", _swap_comparison
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield f"drop {type(node.op).__name__}", _drop_unary
        case ast.Constant(value=bool()):
            yield "turn truth value", lambda twin: setattr(twin, "value", not twin.value)
        case ast.Constant(value=int() as value):
            yield f"{value} becomes {value + 1}", lambda twin: setattr(twin, "value", twin.value + 1)
        case ast.FunctionDef(decorator_list=[ast.Name(id=name), *_]) if name not in STRUCTURAL:
            yield "drop decorator", lambda twin: twin.decorator_list.pop(0)
        case ast.If():
            yield "never take the branch", lambda twin: setattr(twin, "test", ast.Constant(False))
            yield "always take the branch", lambda twin: setattr(twin, "test", ast.Constant(True))
        case ast.IfExp():
            yield "swap the two values", _swap_values
        case ast.Return(value=ast.Tuple(elts=[_, _, *_])):
            yield "turn the returned tuple", lambda twin: twin.value.elts.reverse()
            yield "drop the last returned value", lambda twin: twin.value.elts.pop()
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "return None", lambda twin: setattr(twin, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield "drop call", lambda twin: setattr(twin, "value", ast.Constant(None))
        case ast.Call(func=ast.Attribute(attr=name)) if name in OPTIONAL_METHODS:
            yield f"drop .{name}()", _drop_method
        case ast.Assign(targets=[ast.Attribute()]):
            yield "drop assignment", lambda twin: setattr(twin, "value", ast.Constant(None))


def _swap_operator(twin: Any) -> None:
    twin.op = SWAPS[type(twin.op)]()


def _swap_comparison(twin: Any) -> None:
    twin.ops = [SWAPS[type(twin.ops[0])]()]


def _swap_values(twin: Any) -> None:
    twin.body, twin.orelse = twin.orelse, twin.body


def _drop_unary(twin: Any) -> None:
    if isinstance(twin.op, ast.USub):
        twin.op = ast.UAdd()
    else:
        twin.operand = ast.UnaryOp(ast.Not(), twin.operand)


def _drop_method(twin: Any) -> None:
    # The node stays a call, of a function that gives back what it gets.
    twin.args = [twin.func.value, *twin.args]
    twin.func = ast.parse("(lambda value, *_, **__: value)", mode="eval").body
