"""List what a source mentions: strings that it compares with, such as names of reductions, enum members, numbers."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

#: Most classes and functions that are read: those that a subject names, and those that these name.
READ = 20
#: A smaller number is seldom the size of a block.
BLOCK = 8


@dataclass(frozen=True)
class Mentions:
    """What the source of a class or function mentions; nothing, if there is no source."""

    #: The strings that it compares with, each group with the name of what is compared; keys of a dict have no name.
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: The names of attributes, enum members among them.
    members: frozenset[str] = frozenset()
    #: The integers from 8 on, such as the size of a block.
    numbers: tuple[int, ...] = ()


def mentioned_by(target: object) -> Mentions:
    """Read the source of a class or function, and list what it mentions.

    >>> "id" in mentioned_by(_called).members
    True
    """
    return _read(target) if isinstance(target, type | FunctionType) else Mentions()


@lru_cache(maxsize=64)
def _read(target: type | FunctionType) -> Mentions:
    nodes = list(_nodes(target))
    numbers = [node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is int]
    return Mentions(
        _words(nodes),
        frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute)),
        tuple(dict.fromkeys(number for number in numbers if number >= BLOCK)),
    )


def _words(nodes: list[ast.AST]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    named: dict[str, list[str]] = defaultdict(list)
    unnamed = []
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for name in filter(None, map(_called, sides)):
                named[name] += [word for side in sides for word in _constants(side)]
        elif isinstance(node, ast.Match):
            named[_called(node.subject)] += [
                word for case in node.cases for part in ast.walk(case.pattern) for word in _constants(part)
            ]
        elif isinstance(node, ast.Dict) and None not in node.keys:
            unnamed.append(("", tuple(word for key in node.keys for word in _constants(key))))
    for kept, name in [pair for node in nodes if isinstance(node, ast.Assign) for pair in _kept(node)]:
        named[name] += named[kept] if kept != name else []
    return (*((name, tuple(words)) for name, words in named.items() if words), *unnamed)


def _kept(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """Under which name a value of another name is kept: ``how`` for ``approximate`` in ``ctx.how = approximate``."""
    for target in node.targets:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        yield from ((_called(one), other.id) for one, other in pairs if isinstance(other, ast.Name) and _called(one))


def _called(node: ast.expr) -> str:
    """The last name of what is compared: ``reduction`` of ``ctx.reduction`` and of ``options["reduction"]``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return "".join(_constants(node.slice)) if isinstance(node, ast.Subscript) else ""


def _constants(node: ast.AST | None) -> list[str]:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return [word for part in node.elts for word in _constants(part)]
    value = node.value if isinstance(node, ast.Constant | ast.MatchValue) else None
    if isinstance(value, ast.Constant):
        value = value.value
    return [value] if isinstance(value, str) else []


def _nodes(target: type | FunctionType) -> Iterator[ast.AST]:
    """The source of a class or function, of its bases, and of what it names in its own module."""
    pending: list[Any] = [target]
    read: list[Any] = []
    while pending and len(read) < READ:
        one = pending.pop(0)
        if one in read or not _is_own(one):
            continue
        read.append(one)
        tree = _tree(one)
        module = vars(sys.modules.get(one.__module__, sys))
        named = [module.get(node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)]
        pending += [each for each in named if _is_own(each) and each.__module__ == one.__module__]
        pending += one.__mro__[1:-1] if isinstance(one, type) else ()
        yield from ast.walk(tree)


def _is_own(value: Any) -> bool:
    """Whether a value is a class or function, and not PyTorch's."""
    return isinstance(value, type | FunctionType) and str(value.__module__).partition(".")[0] != "torch"


def _tree(source: Any) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(source))))
    except (OSError, TypeError, SyntaxError, ValueError):  # there is none, or not one of its own
        return ast.Module([], [])
