"""The suite as a list of tests, read out of its source: neither torch nor a test module is imported for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

SUITE = Path(__file__).parents[1] / "suite"
KIT = SUITE.with_name("kit")
#: What the source of a module that imports the compiler looks like, and of one that imports torch.func or vmap: the
#: compiler imports both.
COMPILER = r"torch\.compile\(|use_reentrant=False"
TRANSFORMS = rf"torch\.func\.|\bvmap\(|{COMPILER}"


class SuiteError(Exception):
    """A test that cannot be read: where, and what is wrong with it."""


@dataclass(frozen=True)
class Test:
    """One test function of the suite, before it meets a subject and a world."""

    module: str
    function: str
    clause: str
    ranks: tuple[int, ...]
    group: bool
    cases: tuple[tuple[tuple[str, Any], ...], ...]
    arguments: tuple[str, ...]
    doc: str
    transforms: bool
    compiles: bool
    deadline: float | None
    file: Path
    line: int

    @property
    def about_engine(self) -> bool:
        """Whether the test is about PyTorch's engine, with Functions of its own."""
        return "subject" not in self.arguments

    @property
    def alone(self) -> bool:
        """Whether the test is written for one rank; where a subject gathers it runs on more."""
        return not self.ranks


@cache
def suite(folder: Path = SUITE) -> tuple[Test, ...]:
    """Every test of the suite, in the order of files and lines.

    Raises:
        SuiteError: a test without a clause, or marks that are not literals.
    """
    return tuple(test for file in sorted(folder.glob("test_*.py")) for test in read(file))


def about(clause: str) -> tuple[Test, ...]:
    """The tests of one clause, from the modules that name it: reading all of them takes a tenth of a second."""
    files = (file for file in sorted(SUITE.glob("test_*.py")) if clause in file.read_text(encoding="utf-8"))
    return tuple(test for file in files for test in read(file) if test.clause == clause)


@cache
def read(file: Path) -> tuple[Test, ...]:
    """The tests of one module."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return tuple(_test(node, file) for node in functions if node.name.startswith("test_"))


def _test(node: ast.FunctionDef, file: Path) -> Test:
    marks = dict(_marks(node, file))
    if "clause" not in marks:
        raise SuiteError(f'{file.name}:{node.lineno}: {node.name} names no clause; begin it with @clause("...")')
    sizes, options = marks.get("ranks", ((), {"group": False}))
    return Test(
        module=f"conformance.suite.{file.stem}",
        function=node.name,
        clause=marks["clause"][0][0],
        ranks=tuple(sizes),
        group=options.get("group", True),
        cases=_combinations(marks.get("cases", ((), {}))[1]),
        arguments=tuple(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)),
        transforms=_uses(file, TRANSFORMS),
        compiles=_uses(file, COMPILER),
        deadline=marks.get("deadline", ((None,), {}))[0][0],
        doc=ast.get_docstring(node) or "",
        file=file,
        line=node.lineno,
    )


@cache
def _uses(file: Path, pattern: str) -> bool:
    """Whether a module, or a module of the kit that it imports, uses what a pattern finds: a long import for ranks."""
    text = file.read_text(encoding="utf-8")
    helpers = re.findall(r"^from conformance\.kit\.(\w+) import", text, re.MULTILINE)
    return bool(re.search(pattern, text)) or any(_uses(KIT / f"{name}.py", pattern) for name in helpers)


def _marks(node: ast.FunctionDef, file: Path) -> Iterator[tuple[str, tuple[tuple[Any, ...], dict[str, Any]]]]:
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name):
            try:
                args = tuple(ast.literal_eval(argument) for argument in mark.args)
                options = {word.arg: ast.literal_eval(word.value) for word in mark.keywords if word.arg}
            except ValueError:
                raise SuiteError(f"{file.name}:{mark.lineno}: @{mark.func.id} takes literals only") from None
            yield mark.func.id, (args, options)


def _combinations(parameters: dict[str, Any]) -> tuple[tuple[tuple[str, Any], ...], ...]:
    names = list(parameters)
    return tuple(tuple(zip(names, values, strict=True)) for values in product(*parameters.values()))
