"""The members that a class of the reference has from its base, in the words of ``spec_impl/function*.py``.

They are read out of the source of the contract, so that a page repeats what the contract says and cannot drift from it.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

from sphinx.config import Config
from sphinx.ext.napoleon import GoogleDocstring

from clause_pages.suite import pages_of_specs

CONF = Path(__file__).parents[1]
SPEC_IMPL = CONF.parent / "spec_impl"


@dataclass(frozen=True)
class Member:
    """A member as a page lists it: ``kind`` is a directive of the Python domain, ``flags`` its options.

    ``home`` is the method that holds its clauses and its example, where there is one.
    """

    name: str
    kind: str
    signature: str
    text: str
    flags: tuple[str, ...] = ()
    home: str = ""

    @property
    def summary(self) -> str:
        """The first sentence."""
        first = " ".join(self.text.split("\n\n")[0].split())
        return re.split(r"(?<=\.)\s", first)[0]


@cache
def classes() -> Mapping[str, Mapping[str, Any]]:
    """The facts of each documented class, in ``classes.toml`` or its folder, and the titles of other ``pages``."""
    return tomllib.loads((CONF / "classes.toml").read_text("utf-8")) | pages_of_specs()


@cache
def contract() -> Mapping[str, Member]:
    """Every member of the contract by name: methods, then attributes."""
    extra = tomllib.loads((CONF / "members.toml").read_text("utf-8"))
    (tree,) = _classes(SPEC_IMPL / "function.py")
    found = {}
    for path in sorted(SPEC_IMPL.glob("function_*.py")):
        for part in _classes(path):
            found |= {member.name: member for member in _methods(part, f"spec_impl.{path.stem}.{part.name}")}
    found |= {member.name: member for member in _extra(extra)}
    found |= {member.name: member for member in attributes(ast.get_docstring(tree) or "")}
    return found


def inherited(own: set[str], config: Config) -> list[Member]:
    """The members that a class does not write itself, methods first, each kind in order of names."""
    missing = [member for name, member in contract().items() if name not in own]
    missing.sort(key=lambda member: (member.kind != "method", member.name.strip("_")))
    return [_for_page(member, config) for member in missing]


def names(signature: str) -> str:
    """A signature without its annotations, for a table.

    >>> names("(ctx: Any, *grads: torch.Tensor) -> None")
    '(ctx, *grads)'
    """
    function = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return f"({ast.unparse(function.args)})"


def summary(doc: str) -> str:
    """The first line of a docstring that says something; that of a property begins with an empty comment."""
    return next((line.strip() for line in doc.splitlines() if line.strip(" .")), "")


def attributes(doc: str) -> Iterator[Member]:
    """The attributes that the contract's docstring lists."""
    part = re.search(r"^Attributes:\n((?:[ ]+.*\n|\n)+)", doc, re.MULTILINE)
    for name, text in re.findall(r"^(\w+): (.+(?:\n .+)*)", textwrap.dedent(part[1]) if part else "", re.MULTILINE):
        yield Member(name, "attribute", "", " ".join(text.split()))


def without_attributes(lines: list[str]) -> None:
    """Take the list of attributes out of a docstring, whose page has a table of them."""
    if "Attributes:" in lines:
        start = lines.index("Attributes:")
        stop = next((n for n in range(start + 1, len(lines)) if lines[n] and not lines[n].startswith(" ")), len(lines))
        del lines[start:stop]


def name_returns(lines: list[str]) -> None:
    """Write a ``Returns:`` section as a field: napoleon would take the words before a colon for a type."""
    if "Returns:" in lines:
        start = lines.index("Returns:")
        lines[start] = ":returns:"


def _classes(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef))


def _methods(tree: ast.ClassDef, home: str) -> Iterator[Member]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in node.decorator_list)
            arguments = node.args if static else _without_self(node.args)
            doc = cleandoc(ast.get_docstring(node) or "")
            flags = ("staticmethod",) if static else ()
            signature = f"({ast.unparse(arguments)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")
            yield Member(node.name, "method", signature, _plain(doc), flags, f"{home}.{node.name}")


def _without_self(arguments: ast.arguments) -> ast.arguments:
    return ast.arguments(
        posonlyargs=arguments.posonlyargs,
        args=arguments.args[1:],
        vararg=arguments.vararg,
        kwonlyargs=arguments.kwonlyargs,
        kw_defaults=arguments.kw_defaults,
        kwarg=arguments.kwarg,
        defaults=arguments.defaults,
    )


def _extra(data: Mapping[str, Mapping[str, Any]]) -> Iterator[Member]:
    for name, said in data.items():
        kind = "method" if said["kind"] == "classmethod" else said["kind"]
        flags = ("classmethod",) if said["kind"] == "classmethod" else ()
        yield Member(name, kind, said.get("signature", ""), said["text"], flags)


def _plain(doc: str) -> str:
    """A docstring without its clauses and its example: those are on the contract's own page."""
    blocks = re.split(r"^(?=\S)", doc, flags=re.MULTILINE)
    return "".join(block for block in blocks if not block.startswith((".. clause::", "Example:"))).strip()


def _for_page(member: Member, config: Config) -> Member:
    lines = member.text.splitlines()
    name_returns(lines)
    text = "\n".join(GoogleDocstring(lines, config).lines()).strip()
    return Member(member.name, member.kind, member.signature, text, member.flags, member.home)
