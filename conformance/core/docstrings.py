"""Reads clauses out of the docstrings of a package.

Nothing is imported to read them: the sources are parsed, so neither torch nor Sphinx need be installed.
In a docstring a clause looks like this::

    .. clause:: Function.backward.count
       :level: must
       :party: function
       :sources: K T "the words of the document", ours

       What is promised, in one or two sentences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, cast, get_args

from conformance.core.errors import UsageError
from conformance.core.sources import OURS, Documents, Source, SourceError, parse

Level = Literal["must", "should", "may", "quality"]
LEVELS: tuple[Level, ...] = get_args(Level)
Party = Literal["engine", "function"]
PARTIES: tuple[Party, ...] = get_args(Party)
OPTIONS = ("level", "party", "sources", "versions")
#: The separate form of class X is class XSeparate, and may hold clauses of X; so may XModes and its like in a module
#: whose SPEC is X, each for one topic.
SEPARATE = "Separate"

_DIRECTIVE = re.compile(r"( *)\.\. clause:: *(.*?) *")
_ALMOST = re.compile(r" *\.\. *clauses?\b[ :]*.*")
_OPTION = re.compile(r" +:([\w-]+):(?: +(.*?))? *")
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?\.[a-z0-9]+(-[a-z0-9]+)*")
_VERSIONS = re.compile(r"torch *(<=|>=|==|!=|<|>) *\d+(\.\d+)*( *, *(<=|>=|==|!=|<|>) *\d+(\.\d+)*)*")


class ClauseError(UsageError):
    """A clause that cannot be read; the message begins with file, line and id."""

    def __init__(self, file: str, line: int, name: str, problem: str) -> None:
        super().__init__(f"{file}:{line}: clause {name or '(no id)'}: {problem}")


@dataclass(frozen=True)
class Clause:
    """One testable promise.

    Attributes:
        id: ``Object.member.what``, or ``function.what`` for a plain function.
        party: who must keep it, ``engine`` or ``function``.
        level: ``must``, ``should``, ``may`` or ``quality``.
        text: the promise, on one line.
        sources: where it comes from, at least one.
        spec: the documented class whose module holds the clause.
        object: the qualified name of what the docstring documents.
        module: the module of ``object``.
        file: path of the source file.
        line: line of the directive in that file.
        versions: the PyTorch versions it holds for, such as ``torch<2.14``; empty for all.
        site: the address of the page that states it, for a specification from outside; empty for ours.
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
    site: str = ""


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
    documents: Documents


def read(root: Path, package: str = "", *patterns: str) -> tuple[Clause, ...]:
    """Read the clauses of every module in the package folder ``root``, or of those whose path there matches a pattern.

    Raises:
        ClauseError: a clause is malformed, or its id is used twice.
    """
    found: dict[str, Clause] = {}
    package = package or root.name
    trees = list(_sources(root, *(patterns or ("*.py",))))
    documents = {letter: named for path, tree in trees for letter, named in _documents_of(tree, path).items()}
    for path, tree in trees:
        module = ".".join((package, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        spec = _spec_of(tree, path)
        for documented in _documented(tree, module, spec, str(path), documents):
            for clause in _clauses(documented):
                if clause.id in found:
                    raise used_before(clause, found[clause.id])
                found[clause.id] = clause
    return tuple(found.values())


def used_before(clause: Clause, first: Clause) -> ClauseError:
    """Make the error for an id that two clauses have."""
    return ClauseError(clause.file, clause.line, clause.id, f"used before at {first.file}:{first.line}")


def _sources(root: Path, *patterns: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in (path for pattern in patterns for path in sorted(root.glob(pattern))):
        try:
            yield path, ast.parse(path.read_bytes(), filename=str(path))
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or 1
            raise ClauseError(str(path), line, "", f"unreadable: {error}") from None


def _assigned(tree: ast.Module, path: Path, name: str) -> tuple[int, Any]:
    """Return the line and the literal value of a name in a module; line 0 if the module does not assign it."""
    nodes = (node for node in tree.body if isinstance(node, ast.Assign))
    named = [node for node in nodes for target in node.targets if isinstance(target, ast.Name) and target.id == name]
    if not named:
        return 0, None
    try:
        (node,) = named
        return node.lineno, ast.literal_eval(node.value)
    except ValueError:
        raise ClauseError(str(path), named[-1].lineno, "", f"{name} must be given once, as a literal") from None


def _spec_of(tree: ast.Module, path: Path) -> str:
    """Return the module's ``SPEC``, or an empty string if it has none."""
    line, value = _assigned(tree, path, "SPEC")
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    classes |= {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    if line and (not isinstance(value, str) or value not in classes):
        raise ClauseError(str(path), line, "", "SPEC must name a class of this module, or one it imports")
    return value or ""


def _documents_of(tree: ast.Module, path: Path) -> Documents:
    """Return the title and address of each document in a module's ``DOCUMENTS``, by its letter."""
    line, value = _assigned(tree, path, "DOCUMENTS")
    rows = value.items() if isinstance(value, dict) else [("", value)] if line else []
    for letter, named in rows:
        is_pair = isinstance(named, tuple) and [type(text) for text in named] == [str, str]
        if not (is_pair and isinstance(letter, str) and re.fullmatch("[ABD-WYZ]", letter)):
            raise ClauseError(str(path), line, "", 'DOCUMENTS is {"D": (title, address), ...}, by letters but C and X')
    return dict(rows)


def _documented(tree: ast.Module, module: str, spec: str, file: str, documents: Documents) -> Iterator[_Documented]:
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
                    documents=documents,
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
        sources = parse(options.get("sources", ""), documented.documents)
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
    """Split the lines after a directive: its options, a blank line, then the indented text."""
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
    """Join options that continue on deeper indented lines, so that each is on one line."""
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
    """Tell whether a clause of this name may stand in this docstring.

    A class holds clauses about all its members, a method only its own, a function those with ids of two parts.
    """
    parts = name.split(".")
    owner, _, member = documented.object.partition(".")
    is_topic = parts[0] == documented.spec and owner.startswith(parts[0])
    if owner.removesuffix(SEPARATE) != parts[0] and not is_topic:
        return False
    if documented.is_class or member:
        return len(parts) == 3 and member.strip("_") in ("", parts[1].strip("_"))
    return len(parts) == 2
