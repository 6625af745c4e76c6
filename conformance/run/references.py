"""Make subjects of the reference, for a run without a subject."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from conformance.core import clauses
from conformance.core.plan import SubjectRef

#: Two ranks, and three for groups that leave out the middle one; the documented gathers also run on four.
WORLDS = (2, 3)


def reference_subjects(wanted: str | None = None) -> list[SubjectRef]:
    """Make a subject of every documented class, in the documented and in the separate form.

    Args:
        wanted: the name of the spec, which may be one from outside.
    """
    ours, found = clauses.registry(), clauses.registry(*filter(None, [wanted]))
    homes = {clause.spec: clause for clause in found.values() if clause.spec not in {clauses.CONTRACT, "Collective"}}
    named = [
        SubjectRef(f"{home.module}:{name}", spec, None, f"{home.module}:{name}")
        for spec, home in homes.items()
        for name in _forms(Path(home.file), spec)
    ]
    folder = Path(next(iter(ours.values())).file).parent
    collectives = [subject for path in sorted(folder.glob("collectives*.py")) for subject in _collectives(path)]
    return [subject for subject in [*named, *collectives] if wanted in {None, subject.spec}]


def _forms(file: Path, spec: str) -> list[str]:
    """Yield the documented class and its separate form; or the module's ``reference``, if it is not a class."""
    body = ast.parse(file.read_bytes()).body
    defined = {node.name for node in body if isinstance(node, ast.ClassDef)}
    assigned = {
        name.id for node in body if isinstance(node, ast.Assign) for name in node.targets if isinstance(name, ast.Name)
    }
    return ["reference"] if "reference" in assigned else [name for name in (spec, f"{spec}Separate") if name in defined]


def _collectives(path: Path) -> Iterator[SubjectRef]:
    """Make a subject of each reference collective in a module, with its types, without importing the module."""
    types: dict[str, str] = {}
    for node in ast.parse(path.read_bytes()).body:
        claim = _types(node, types) if isinstance(node, ast.ClassDef) else ""
        if isinstance(node, ast.ClassDef) and claim:
            types[node.name] = claim
            reference = f"{path.parent.name}.{path.stem}:{node.name}"
            samples = "source_and_group" if _has_source(node) else "tensor_and_group"
            inputs = f"conformance.kit.inputs:{samples}"
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
