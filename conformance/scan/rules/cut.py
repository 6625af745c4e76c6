"""Gradients that lose their graph in backward, so that differentiating twice goes wrong without a word."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.model import Finding
from conformance.scan.study import Study


def graph_lost(study: Study) -> Iterator[Finding]:
    """``.data`` or ``.detach()`` on the way to what backward returns, and nothing against a second round."""
    backward = study.backward
    if backward is None or _guards(backward.method):
        return
    if "once_differentiable" in study.subject.decorators(backward.method):
        return
    lines = sorted({line for returned in backward.trace.returns for line in returned.value.cuts})
    if lines:
        message = "backward returns what is cut off from the graph here (.data, .detach()), without once_differentiable"
        yield study.finding("Function.backward.double", "likely", lines[0], message)


def _guards(method: ast.FunctionDef) -> bool:
    """Whether backward looks at the grad mode itself, or refuses as reentrant checkpoints do."""
    watched = {"is_grad_enabled", "set_grad_enabled", "_is_checkpoint_valid"}
    return any(isinstance(node, ast.Attribute | ast.Name) and _last(node) in watched for node in ast.walk(method))


def _last(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
