"""The suite as a list of tests, read out of its source: neither torch nor a test module is imported for it.

A specification has its tests in its own folder; those of one from outside are added for a run that names it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from conformance.core.errors import UsageError
from conformance.core.homes import ours, outside

PACKAGE = "conformance.suite"
SUITE = Path(__file__).parents[1] / "suite"
KIT = SUITE.with_name("kit")
#: Patterns in the source of modules that compile, or that differentiate by torch.func: both import the
#: compiler, which takes a second. vmap and jvp do not need it.
COMPILER = r"torch\.compile\(|use_reentrant=False"
TRANSFORMS = rf"torch\.func\.(?:grad|vjp|jacrev|hessian|linearize)|{COMPILER}"


class SuiteError(UsageError):
    """A test that cannot be read: where, and what is wrong with it."""


@dataclass(frozen=True)
class SuiteTest:
    """One test function of the suite, before it meets a subject and a world.

    Attributes:
        module: the module it is imported from, on a rank.
        function: its name.
        clause: the id of the clause that it asserts.
        ranks: the world sizes that it is written for; none for one that is written for a single rank.
        group: whether its ranks have a process group.
        cases: every combination of its parameters, as pairs of name and value.
        arguments: what its body takes: ``subject`` and ``world``, or ``probe`` and ``variation``, and its parameters;
            ``in_a_copy``, if it runs code in copies of a rank that has not called a subject.
        doc: its docstring.
        transforms: whether torch.func computes gradients, for which it imports the compiler.
        compiles: whether the compiler is used.
        deadline: when it counts as hanging (seconds), if that is sooner than usual.
        file: its source file.
        line: its line there.
    """

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
    def tests_engine(self) -> bool:
        """Tell whether the test is about PyTorch's engine, with Functions of its own."""
        return not {"subject", "probe"}.intersection(self.arguments)

    @property
    def is_fresh(self) -> bool:
        """Tell whether it needs ranks on which no test has run."""
        return "in_a_copy" in self.arguments

    @property
    def is_single_rank(self) -> bool:
        """Tell whether the test is written for one rank; if the subject gathers, it runs on more too."""
        return not self.ranks


class _Marks(NamedTuple):
    """What the marks of a test say."""

    clause: str = ""
    ranks: tuple[int, ...] = ()
    group: bool = False
    cases: dict[str, Any] = {}
    deadline: float | None = None


def suite(*named: str) -> tuple[SuiteTest, ...]:
    """Return every test, in the order of files and lines: the suite's, then those of each specification.

    Args:
        *named: specs, of which those from outside are added.

    Raises:
        SuiteError: a test without a clause, or marks that are not literals.
    """
    return tuple(test for package, folder in _folders(named) for test in _tests_in_folder(folder, package))


def _folders(named: Iterable[str]) -> list[tuple[str, Path]]:
    """Return each of these folders, after the name of its package."""
    return [(PACKAGE, SUITE), *((home.package, home.folder) for home in (*ours().values(), *outside(named)))]


@cache
def _tests_in_folder(folder: Path, package: str) -> tuple[SuiteTest, ...]:
    return tuple(test for file in sorted(folder.glob("test_*.py")) for test in tests_in(file, package))


def tests_of(clause: str, *named: str) -> tuple[SuiteTest, ...]:
    """Return the tests of one clause, from the modules that name it: reading all of them takes a tenth of a second."""
    found = ((package, file) for package, folder in _folders(named) for file in sorted(folder.glob("test_*.py")))
    some = ((package, file) for package, file in found if clause in _text(file))
    return tuple(test for package, file in some for test in tests_in(file, package) if test.clause == clause)


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def tests_in(file: Path, package: str) -> tuple[SuiteTest, ...]:
    """Return the tests of one module."""
    try:
        tree = ast.parse(_text(file), str(file))
    except (SyntaxError, ValueError) as error:
        raise SuiteError(f"{file}: unreadable: {error}") from None
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return tuple(_test(node, file, package) for node in functions if node.name.startswith("test_"))


def _test(node: ast.FunctionDef, file: Path, package: str) -> SuiteTest:
    marks = _marks(node, file)
    if not marks.clause:
        raise SuiteError(f'{file.name}:{node.lineno}: {node.name} names no clause; begin it with @clause("...")')
    return SuiteTest(
        module=f"{package}.{file.stem}",
        function=node.name,
        clause=marks.clause,
        ranks=marks.ranks,
        group=marks.group,
        cases=_combinations(marks.cases),
        arguments=tuple(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)),
        transforms=_uses(file, TRANSFORMS, package),
        compiles=_uses(file, COMPILER, package),
        deadline=marks.deadline,
        doc=ast.get_docstring(node) or "",
        file=file,
        line=node.lineno,
    )


@cache
def _uses(file: Path, pattern: str, package: str) -> bool:
    """Tell whether a module, or a helper that it imports, matches a pattern: its import then takes long."""
    return bool(re.search(pattern, _text(file))) or any(
        _uses(helper, pattern, package) for helper in _helpers(file, package)
    )


def _helpers(file: Path, package: str) -> Iterator[Path]:
    """Yield the modules of the kit, and beside the test, that a source imports, or imports from."""
    roots, text = {"conformance.kit": KIT, package: file.parent}, _text(file)
    for root, module, names in re.findall(rf"^from ({'|'.join(roots)})([\w.]*) import (.*)", text, re.MULTILINE):
        place = roots[root].joinpath(*module.split("."))
        modules = [place.with_suffix(".py")] if module else []
        modules += [place / f"{name}.py" for name in re.findall(r"\w+", names)]
        yield from (path for path in modules if path.is_file())


def _marks(node: ast.FunctionDef, file: Path) -> _Marks:
    marks = _Marks()
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name):
            try:
                args = tuple(ast.literal_eval(argument) for argument in mark.args)
                options = {word.arg: ast.literal_eval(word.value) for word in mark.keywords if word.arg}
            except ValueError:
                raise SuiteError(f"{file.name}:{mark.lineno}: @{mark.func.id} takes literals only") from None
            marks = _with_mark(marks, mark.func.id, args, options)
    return marks


def _with_mark(marks: _Marks, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> _Marks:
    match name:
        case "clause":
            return marks._replace(clause=args[0])
        case "ranks":
            return marks._replace(ranks=args, group=options.get("group", True))
        case "cases":
            return marks._replace(cases=options)
        case "deadline":
            return marks._replace(deadline=args[0])
    return marks


def _combinations(parameters: dict[str, Any]) -> tuple[tuple[tuple[str, Any], ...], ...]:
    names = list(parameters)
    return tuple(tuple(zip(names, values, strict=True)) for values in product(*parameters.values()))
