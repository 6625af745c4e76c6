"""Tensors that forward or setup_context puts on ctx directly, or inside a container on ctx."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.model import Confidence, Finding, at_least
from conformance.scan.study import Study, Walked
from conformance.scan.values import Value

CLAUSE = "Function.forward.no-tensor-on-ctx"


def tensors_on_ctx(study: Study) -> Iterator[Finding]:
    """``ctx.x = tensor``, where it stays; what is taken off ctx again in the same method does not count."""
    for walked in study.keepers:
        removed = _removed(walked)
        seen: set[str] = set()
        for kept in walked.trace.kept:
            where, sure = _tensor_in(kept.value)
            if sure is None or not at_least(sure, "likely") or kept.attribute in removed | seen:
                continue
            seen.add(kept.attribute)
            message = f"{walked.method.name} keeps {where} on ctx.{kept.attribute} instead of calling save_for_backward"
            yield study.finding(CLAUSE, sure, kept.line, message)


def _tensor_in(value: Value) -> tuple[str, Confidence | None]:
    if value.is_tensor:
        return "a tensor", value.sure
    if value.is_container:
        inner = value.items if value.items is not None else (value.each,)
        sure = [found for _, found in map(_tensor_in, inner) if found is not None]
        if sure:
            return "a container of tensors", "certain" if "certain" in sure else sure[0]
    return "", None


def _removed(walked: Walked) -> set[str]:
    """Attributes that are deleted, or set to None, after all."""
    deleted = [target for node in ast.walk(walked.method) if isinstance(node, ast.Delete) for target in node.targets]
    names = {target.attr for target in deleted if isinstance(target, ast.Attribute)}
    last = {kept.attribute: kept for kept in walked.trace.kept}
    always = {statement.lineno for statement in walked.method.body}
    return names | {name for name, kept in last.items() if kept.value.kind == "none" and kept.line in always}
