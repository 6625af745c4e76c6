"""Make subjects of the reference, for a run without a subject."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from conformance.core import clauses
from conformance.core.plan import SubjectRef

#: Two ranks, and three for groups that leave out the middle one; the documented gathers also run on four.
WORLDS = (2, 3)


def reference_subjects() -> list[SubjectRef]:
    """Make a subject of every documented class, in the documented and in the separate form."""
    registry = clauses.registry().values()
    homes = {clause.spec: clause.module for clause in registry if clause.spec not in {clauses.CONTRACT, "Collective"}}
    named = [
        SubjectRef(f"{module}:{spec}{form}", spec, None, f"{module}:{spec}{form}")
        for spec, module in homes.items()
        for form in ("", "Separate")
    ]
    folder = next(Path(clause.file).parent for clause in registry)
    return [*named, *(subject for path in sorted(folder.glob("collectives*.py")) for subject in _collectives(path))]


def _collectives(path: Path) -> Iterator[SubjectRef]:
    """Make a subject of each reference collective in a module, with its types, without importing the module."""
    types: dict[str, str] = {}
    for node in ast.parse(path.read_bytes()).body:
        claim = _types(node, types) if isinstance(node, ast.ClassDef) else ""
        if isinstance(node, ast.ClassDef) and claim:
            types[node.name] = claim
            reference = f"{path.parent.name}.{path.stem}:{node.name}"
            samples = "source_and_group" if _has_source(node) else "tensor_and_group"
            inputs = f"conformance.kit.collective_samples:{samples}"
            yield SubjectRef(reference, "Collective", inputs, reference, types=claim, ranks=WORLDS)


def _types(node: ast.ClassDef, known: dict[str, str]) -> str:
    """Read TYPES of a class: a text, or the TYPES of another class of the module."""
    for part in node.body:
        if isinstance(part, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "TYPES" for t in part.targets):
            value = part.value
            if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
                return known[value.value.id]
            return str(ast.literal_eval(value))
    return ""


def _has_source(node: ast.ClassDef) -> bool:
    forward = next(part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "forward")
    return any(argument.arg == "source" for argument in forward.args.args)
