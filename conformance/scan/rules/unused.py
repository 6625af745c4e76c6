"""Find gradients that do not depend on the incoming one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.classes import is_stub
from conformance.scan.model import Finding
from conformance.scan.study import Study, Walked
from conformance.scan.trace import Returned


def incoming(study: Study) -> Iterator[Finding]:
    """Find backwards that never name their incoming gradient, and still return a tensor.

    Some authors intend it, to run code when the gradient arrives: so it is never more than possible.
    """
    backward = study.backward
    if backward is None or is_stub(backward.method) or study.subject.strange_decorators(backward.method):
        return
    handed = {*backward.takes.names, backward.takes.rest} - {""}
    named = {node.id for node in ast.walk(backward.method) if isinstance(node, ast.Name)}
    if not handed or handed & named or "locals" in named:
        return
    for returned in backward.trace.returns:
        if _gives_tensor(backward, returned):
            message = f"{backward.method.name} returns a gradient and never looks at {', '.join(sorted(handed))}"
            yield study.finding("Function.backward.gradient", "possible", returned.line, message)
            return


def _gives_tensor(backward: Walked, returned: Returned) -> bool:
    """Tell whether it returns something made from what forward kept; zeros and None need no incoming gradient."""
    items = returned.value.items if returned.value.items is not None else (returned.value,)
    if any(item.is_tensor and item.derives for item in items):
        return True
    statements = [node for node in ast.walk(backward.method) if isinstance(node, ast.Return)]
    nodes = [node.value for node in statements if node.lineno == returned.line and node.value is not None]
    parts = [part for node in nodes for part in (node.elts if isinstance(node, ast.Tuple) else [node])]
    return any(_is_kept(part, backward.takes.ctx) for part in parts)


def _is_kept(node: ast.expr, ctx: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == ctx
