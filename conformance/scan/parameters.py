"""Infer the values of a method's parameters before it runs."""

from __future__ import annotations

import ast
from dataclasses import replace

from conformance.scan.classes import Method
from conformance.scan.model import Confidence
from conformance.scan.values import NONE, PLAIN, UNKNOWN, Value, joined

NO_TENSOR = frozenset(
    {
        "int",
        "float",
        "bool",
        "str",
        "Callable",
        "dict",
        "Dict",
        "Size",
        "device",
        "dtype",
        "ProcessGroup",
        "Module",
    }
)


def tensor(name: str, sure: Confidence) -> Value:
    """Return a tensor that is passed under this name."""
    return Value("tensor", sure, frozenset({name}), derives=frozenset({name}))


def parameter(name: str, annotation: ast.expr | None, used: Confidence | None) -> Value:
    """Infer an input from its annotation, and from how surely it is used as a tensor."""
    words = _words(annotation)
    if words and words <= NO_TENSOR | {"None", "Optional"}:
        return PLAIN
    given = tensor(name, "certain")
    if words in ({"Tensor"}, {"Parameter"}) or used == "certain":
        return given
    if words and words <= {"Tensor", "None", "Optional"}:
        return joined(given, NONE)
    if used and not words & NO_TENSOR:
        return replace(given, sure=used)
    return replace(UNKNOWN, shares=given.shares, derives=given.derives)


def annotated(value: Value, annotation: ast.expr) -> Value:
    """Return what is known of a name that has this value, and is annotated as a tensor."""
    if value.kind != "unknown" or _words(annotation) not in ({"Tensor"}, {"Parameter"}):
        return value
    return replace(value, kind="tensor", sure="likely")


def default_none(method: Method) -> list[str]:
    """Return the parameters that default to None."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    pairs = zip(reversed(arguments), reversed(method.args.defaults), strict=False)
    return [argument.arg for argument, value in pairs if isinstance(value, ast.Constant) and value.value is None]


def _words(annotation: ast.expr | None) -> set[str]:
    """Return the last parts of the names in an annotation, quoted ones too."""
    if annotation is None:
        return set()
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        quoted = annotation.value
        try:
            annotation = ast.parse(quoted, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {quoted}
    words: set[str] = set()
    inner = {id(node.value) for node in ast.walk(annotation) if isinstance(node, ast.Attribute)}
    for node in ast.walk(annotation):
        if isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Name) and id(node) not in inner:
            words.add(node.id)
        elif isinstance(node, ast.Constant) and node.value is None:
            words.add("None")
    return words
