"""The clauses, read out of the docstrings of ``spec_impl``.

Nothing is imported to read them: the sources are parsed, so neither torch nor Sphinx need be there.
In a docstring a clause looks like this::

    .. clause:: Function.backward.count
       :level: must
       :party: function
       :sources: K T "the words of the document", ours

       What is promised, in one or two sentences.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast, get_args

from conformance.core.sources import OURS, Source, SourceError, parse

Level = Literal["must", "should", "may", "quality"]
LEVELS: tuple[Level, ...] = get_args(Level)
Party = Literal["engine", "function"]
PARTIES: tuple[Party, ...] = get_args(Party)
#: The spec that every Function keeps, whatever other spec it is checked against.
CONTRACT = "Function"
OPTIONS = ("level", "party", "sources", "versions")
#: The separate form of class X is class XSeparate, and may hold clauses of X; so may XModes and its like in a module
#: whose SPEC is X, each for one topic.
SEPARATE = "Separate"

_DIRECTIVE = re.compile(r"( *)\.\. clause:: *(.*?) *")
_ALMOST = re.compile(r" *\.\. *clauses?\b[ :]*.*")
_OPTION = re.compile(r" +:([\w-]+):(?: +(.*?))? *")
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?\.[a-z0-9]+(-[a-z0-9]+)*")
_VERSIONS = re.compile(r"torch *(<=|>=|==|!=|<|>) *\d+(\.\d+)*( *, *(<=|>=|==|!=|<|>) *\d+(\.\d+)*)*")


class ClauseError(Exception):
    """A clause that cannot be read; the message begins with file, line and id."""

    def __init__(self, file: str, line: int, name: str, problem: str) -> None:
        super().__init__(f"{file}:{line}: clause {name or '(no id)'}: {problem}")


@dataclass(frozen=True)
class Clause:
    """One testable promise.

    Attributes:
        id: ``Object.member.what``, or ``function.what`` for a plain function.
        party: who owes it, ``engine`` or ``function``.
        level: ``must``, ``should``, ``may`` or ``quality``.
        text: the promise, on one line.
        sources: where it comes from, at least one.
        spec: the documented class whose module holds the clause.
        object: the qualified name of what the docstring documents.
        module: the module of ``object``.
        file: path of the source file.
        line: line of the directive in that file.
        versions: the PyTorch versions it holds for, such as ``torch<2.14``; empty for all.
    """

    id: str
    party: Party
    level: Level
    text: str
    sources: tuple[Source, ...]
    spec: str
    object: str
    module: str
    file: str
    line: int
    versions: str = ""


@dataclass(frozen=True)
class _Documented:
    """An object that has a docstring: where it stands, and the text."""

    object: str
    is_class: bool
    module: str
    spec: str
    file: str
    line: int
    lines: tuple[str, ...]


@cache
def registry() -> Mapping[str, Clause]:
    """All clauses of the installed ``spec_impl`` by id, in the order of its sources."""
    return MappingProxyType({clause.id: clause for clause in read(_spec_impl())})


@cache
def specs() -> tuple[str, ...]:
    """The names of the specs, ``Function`` among them, in the order of the sources."""
    named = (_spec_of(tree, path) for path, tree in _sources(_spec_impl()))
    return tuple(dict.fromkeys(filter(None, named)))


def digest() -> str:
    """Sha256 of what is promised: changes when an id, a party, a level or a text does."""
    rows = sorted([clause.id, clause.party, clause.level, clause.text] for clause in registry().values())
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def text_hash(clause: Clause) -> str:
    """Twelve hexadecimal digits that change with the words of one clause."""
    return hashlib.sha256(clause.text.encode()).hexdigest()[:12]


def read(root: Path) -> tuple[Clause, ...]:
    """Read the clauses of every module in the package folder ``root``.

    Raises:
        ClauseError: a clause is malformed, or its id is used twice.
    """
    found: dict[str, Clause] = {}
    for path, tree in _sources(root):
        module = root.name if path.stem == "__init__" else f"{root.name}.{path.stem}"
        spec = _spec_of(tree, path)
        for documented in _documented(tree, module, spec, str(path)):
            for clause in _clauses(documented):
                if clause.id in found:
                    first = found[clause.id]
                    before = f"used before at {first.file}:{first.line}"
                    raise ClauseError(clause.file, clause.line, clause.id, before)
                found[clause.id] = clause
    return tuple(found.values())


def _spec_impl() -> Path:
    spec = importlib.util.find_spec("spec_impl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package spec_impl, which holds the clauses, is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _sources(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(root.glob("*.py")):
        try:
            yield path, ast.parse(path.read_bytes(), filename=str(path))
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or 1
            raise ClauseError(str(path), line, "", f"unreadable: {error}") from None


def _spec_of(tree: ast.Module, path: Path) -> str:
    """The value of the module's ``SPEC``, or an empty string where there is none."""
    named = [
        (node.lineno, node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id == "SPEC"
    ]
    if not named:
        return ""
    line, value = named[-1]
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    classes |= {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    if len(named) > 1 or not isinstance(value, ast.Constant) or value.value not in classes:
        raise ClauseError(
            str(path), line, "", "SPEC must be given once and name a class of this module, or one it imports"
        )
    return str(value.value)


def _documented(tree: ast.Module, module: str, spec: str, file: str) -> Iterator[_Documented]:
    def walk(node: ast.AST, prefix: str) -> Iterator[_Documented]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            name = prefix + child.name
            text = ast.get_docstring(child, clean=False)
            if text is not None:
                lines = tuple(text.expandtabs().split("\n"))
                yield _Documented(
                    object=name,
                    is_class=isinstance(child, ast.ClassDef),
                    module=module,
                    spec=spec,
                    file=file,
                    line=child.body[0].lineno,
                    lines=lines,
                )
            yield from walk(child, name + ".")

    yield from walk(tree, "")


def _clauses(documented: _Documented) -> Iterator[Clause]:
    for number, line in enumerate(documented.lines):
        opening = _DIRECTIVE.fullmatch(line)
        if opening:
            yield _clause(documented, number, len(opening[1]), opening[2])
        elif _ALMOST.fullmatch(line):
            place = documented.file, documented.line + number
            raise ClauseError(*place, line.strip(), "a directive is written '.. clause:: ID'")


def _clause(documented: _Documented, number: int, indent: int, name: str) -> Clause:
    def refuse(problem: str) -> ClauseError:
        return ClauseError(documented.file, documented.line + number, name, problem)

    options, text = _options_and_text(documented.lines[number + 1 :], indent, refuse)
    level, party = options.get("level", ""), options.get("party", "function")
    versions = options.get("versions", "")
    try:
        sources = parse(options.get("sources", ""))
    except SourceError as error:
        raise refuse(f"sources: {error}") from None
    problems = {
        "an id is Object.member.what or function.what": not _ID.fullmatch(name),
        f"object and member are not those of {documented.object}": not _belongs(name, documented),
        f"level {level!r} is none of {', '.join(LEVELS)}": level not in LEVELS,
        f"party {party!r} is none of {', '.join(PARTIES)}": party not in PARTIES,
        "it needs its sources": not sources,
        f"a {level} needs a source besides ours": (
            level in ("must", "should") and all(source.kind == OURS for source in sources)
        ),
        f"versions {versions!r} must look like torch<2.14": not _VERSIONS.fullmatch(versions or "torch>0"),
        "the text is missing": not text,
        "its module declares no SPEC": not documented.spec,
    }
    for problem, present in problems.items():
        if present:
            raise refuse(problem)
    place = (documented.spec, documented.object, documented.module, documented.file, documented.line + number)
    return Clause(name, cast(Party, party), cast(Level, level), text, sources, *place, versions)


def _options_and_text(
    lines: tuple[str, ...], indent: int, refuse: Callable[[str], ClauseError]
) -> tuple[dict[str, str], str]:
    """Split what follows a directive: its options, a blank line, then the indented text."""
    inside = list(takewhile(lambda line: not line.strip() or _indent(line) > indent, lines))
    head = list(takewhile(str.strip, inside))
    options: dict[str, str] = {}
    for line in _joined(head):
        option = _OPTION.fullmatch(line)
        if not option:
            raise refuse(f"between the options and the text belongs a blank line: {line.strip()!r}")
        if option[1] not in OPTIONS or option[1] in options:
            raise refuse(f"option {option[1]!r} is unknown or given twice; there are {', '.join(OPTIONS)}")
        options[option[1]] = option[2] or ""
    return options, " ".join(" ".join(inside[len(head) :]).split())


def _joined(lines: list[str]) -> list[str]:
    """Options that run over several lines, each on one: what goes on is indented deeper than its option."""
    joined: list[str] = []
    for line in lines:
        if joined and _indent(line) > _indent(joined[-1]):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    return joined


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _belongs(name: str, documented: _Documented) -> bool:
    """A class holds clauses about all its members, a method only its own, a function two-part ids."""
    parts = name.split(".")
    owner, _, member = documented.object.partition(".")
    is_topic = parts[0] == documented.spec and owner.startswith(parts[0])
    if owner.removesuffix(SEPARATE) != parts[0] and not is_topic:
        return False
    if documented.is_class or member:
        return len(parts) == 3 and member.strip("_") in ("", parts[1].strip("_"))
    return len(parts) == 2
