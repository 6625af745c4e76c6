"""Planted bugs and correct implementations, read out of their sources: adding a class is all it takes to add one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.core.clauses import CONTRACT
from conformance.core.homes import Home

BREAKS = re.compile(r"^Breaks:\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Implementation:
    """One class or function that was written to be held against the suite.

    ``breaks`` is the clause that must notice it; empty for a correct one.
    """

    reference: str
    spec: str
    inputs: str | None
    text: str
    breaks: str = ""
    engine: bool = False
    types: str | None = None
    #: Where it runs: a module with DEVICE has bugs that the CPU hides.
    device: str = "cpu"


def of_home(home: Home, kind: str) -> list[Implementation]:
    """The implementations in planted.py, or in correct.py, and in those of such names as ``planted_rules.py``."""
    files = sorted([*home.folder.glob(f"{kind}.py"), *home.folder.glob(f"{kind}_*.py")])
    found = (one for file in files for one in read(file, f"{home.package}.{file.stem}", kind == "planted", home.name))
    return [one for one in found if bool(one.breaks) == (kind == "planted")]


def read(file: Path, module: str, planted: bool, spec: str = CONTRACT) -> Iterator[Implementation]:
    """The implementations of a module, in the order of its lines; the module is not imported.

    Args:
        file: its source.
        module: its name.
        planted: whether its classes and functions are bugs, each of which says what it breaks; else it holds classes,
            and Subjects, that are right.
        spec: what they are held against, where the module has no SPEC.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    spec = next((_literal(node) for node in tree.body if _assigns(node, "SPEC")), spec)
    device = next((_literal(node) for node in tree.body if _assigns(node, "DEVICE")), "cpu")
    general = any(map(_makes_inputs, tree.body))
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and _counts(node, planted):
            own = any(map(_makes_inputs, node.body))
            inputs = f"{module}:{node.name}.inputs" if own else f"{module}:inputs" if general else None
            found = _implementation(node, module, spec, inputs, file.stem.startswith("engine"))
            yield replace(found, device=device)
        elif not planted and isinstance(node, ast.Assign) and _is_subject(node):
            name = node.targets[0]
            assert isinstance(name, ast.Name)
            yield Implementation(f"{module}:{name.id}", _subject_spec(node) or spec, None, name.id)


def _counts(node: ast.ClassDef | ast.FunctionDef, planted: bool) -> bool:
    if node.name.startswith("_") or node.name == "inputs":
        return False
    doc = ast.get_docstring(node) or ""
    return "Breaks:" in doc if planted else isinstance(node, ast.ClassDef) and bool(doc)


def _makes_inputs(node: ast.stmt) -> bool:
    return _assigns(node, "inputs") or (isinstance(node, ast.FunctionDef) and node.name == "inputs")


def _implementation(
    node: ast.ClassDef | ast.FunctionDef, module: str, spec: str, inputs: str | None, engine: bool
) -> Implementation:
    doc = ast.get_docstring(node) or ""
    breaks = BREAKS.search(doc)
    text = " ".join(BREAKS.sub("", doc).split())
    return Implementation(
        f"{module}:{node.name}", spec, inputs, text, breaks[1] if breaks else "", engine, _types(node)
    )


def _types(node: ast.stmt) -> str | None:
    """The SPMD types that a class claims in TYPES."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    return next((_literal(part) for part in body if _assigns(part, "TYPES")), None)


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)


def _literal(node: ast.stmt) -> str:
    assert isinstance(node, ast.Assign)
    return str(ast.literal_eval(node.value))


def _is_subject(node: ast.Assign) -> bool:
    call = node.value
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Subject"


def _subject_spec(node: ast.Assign) -> str:
    call = node.value
    assert isinstance(call, ast.Call)
    return next((str(ast.literal_eval(word.value)) for word in call.keywords if word.arg == "spec"), "")
