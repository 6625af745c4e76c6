"""What a public name says of itself is complete: arguments with shapes and dtypes, exceptions, an example that runs.

That examples run is seen by ``tests/examples.py``, and that every clause has a source by the registry.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.core.homes import ours

ROOT = Path(__file__).parents[1]
#: The modules of the suite whose ``__all__`` is promised in docs/policies.md. What else can be imported is private.
STABLE = re.findall(r"^- `(conformance\.\S+)`", (ROOT / "docs" / "policies.md").read_text("utf-8"), re.MULTILINE)
#: What PyTorch gives every Function in the same way is described at the methods of ``Function``.
FROM_PYTORCH = {"ctx", "inputs", "output", "info", "in_dims"}
Function = ast.FunctionDef


@dataclass(frozen=True)
class Named:
    """A public class, function or method, and the class it belongs to."""

    name: str
    node: ast.ClassDef | Function
    owner: ast.ClassDef | None = None

    @property
    def text(self) -> str:
        """The docstring."""
        return inspect.cleandoc(ast.get_docstring(self.node) or "")

    @property
    def arguments(self) -> list[ast.arg]:
        """What a caller gives."""
        if isinstance(self.node, ast.ClassDef):
            return []
        given = self.node.args
        every = [*given.posonlyargs, *given.args, *filter(None, [given.vararg]), *given.kwonlyargs]
        return [one for one in every if one.arg not in {"self", "cls"} and not one.arg.startswith("_")]


def within(module: str, tree: ast.Module, names: set[str] | None) -> Iterator[Named]:
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
            continue
        if (names is not None and node.name not in names) or "overload" in map(ast.unparse, node.decorator_list):
            continue
        yield Named(f"{module}.{node.name}", node)
        for part in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(part, Function) and not part.name.startswith("_"):
                yield Named(f"{module}.{node.name}.{part.name}", part, node)


def parsed(module: str) -> ast.Module:
    return ast.parse(file_of(module).read_text("utf-8"))


def file_of(module: str) -> Path:
    whole = ROOT / module.replace(".", "/")
    return whole / "__init__.py" if whole.is_dir() else whole.with_suffix(".py")


def exported(tree: ast.Module) -> set[str]:
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return set(names)


def reference() -> Iterator[Named]:
    """The documented classes and functions; ``Function`` stands in several files, one for each group of its members."""
    modules = [f"spec_impl.{file.stem}" for file in (ROOT / "spec_impl").glob("[!_]*.py")]
    for name in sorted([*modules, *(home.package for home in ours().values())]):
        found = [*within(name, parsed(name), None)]
        if name.startswith("spec_impl.function_"):
            yield from (named for named in found if named.owner)
        elif any(named.name.endswith(".forward") for named in found):
            yield from found


def suite() -> Iterator[Named]:
    for module in STABLE:
        tree = parsed(module)
        yield from within(module, tree, exported(tree))


PUBLIC = [*reference(), *suite()]


def described(named: Named) -> dict[str, str]:
    """What the section on arguments says of each."""
    section = re.search(r"^Args:\n((?: .*\n?|\n)+)", named.text, re.MULTILINE)
    found = re.findall(r"^    \**(\w+): ((?:.+\n?)(?:^     .*\n?)*)", section[1] if section else "", re.MULTILINE)
    return dict(found)


def missing(named: Named) -> list[str]:
    """What a docstring lacks."""
    text = named.text
    if not text:
        return ["a docstring"]
    lacks = [] if isinstance(named.node, ast.ClassDef) else [*undescribed(named), *unmeasured(named), *untold(named)]
    return lacks if named.owner or ">>> " in text else [*lacks, "an example"]


def undescribed(named: Named) -> Iterator[str]:
    """Arguments that neither the section on arguments nor the text says anything of."""
    said = described(named)
    same = named.text.startswith("As in the combined form")
    for argument in [] if same else named.arguments:
        known = argument.arg in FROM_PYTORCH and not named.name.startswith("spec_impl.function")
        if not (known or argument.arg in said or f"``{argument.arg}``" in named.text):
            yield f"what {argument.arg} is"


def unmeasured(named: Named) -> Iterator[str]:
    """Tensors that a documented class takes and of which no shape or dtype is told."""
    said = described(named)
    for argument in named.arguments if named.name.endswith(".forward") and said else []:
        text = said.get(argument.arg, "")
        if argument.annotation and ast.unparse(argument.annotation) == "torch.Tensor":
            yield from [f"the shape of {argument.arg}"] * (not re.search("shape|dimension", text))
            yield from [f"the dtype of {argument.arg}"] * ("dtype" not in text)


def untold(named: Named) -> Iterator[str]:
    """Exceptions that are raised and not mentioned."""
    for node in ast.walk(named.node):
        if (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and ast.unparse(node.exc.func) not in named.text
        ):
            yield f"when it raises {ast.unparse(node.exc.func)}"


@pytest.mark.parametrize("named", PUBLIC, ids=lambda named: named.name)
def test_a_public_name_says_what_a_caller_must_know(named):
    assert missing(named) == []
