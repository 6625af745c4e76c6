"""Find tensors that forward or setup_context keeps on ctx, directly or in a container."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.model import Confidence, Finding, at_least
from conformance.scan.study import Study, Walked
from conformance.scan.values import Value

CLAUSE = "Function.forward.no-tensor-on-ctx"


def tensors_on_ctx(study: Study) -> Iterator[Finding]:
    """Find each ``ctx.x = tensor`` that stays; what the same method removes from ctx again does not count."""
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
    """Return the attributes that are deleted or set to None later."""
    deleted = [target for node in ast.walk(walked.method) if isinstance(node, ast.Delete) for target in node.targets]
    names = {target.attr for target in deleted if isinstance(target, ast.Attribute)}
    last = {kept.attribute: kept for kept in walked.trace.kept}
    always = {statement.lineno for statement in walked.method.body}
    return names | {name for name, kept in last.items() if kept.value.kind == "none" and kept.line in always}
