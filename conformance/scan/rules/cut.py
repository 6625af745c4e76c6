"""Find gradients that lose their graph in backward, so that the second derivative is silently wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.model import Finding
from conformance.scan.study import Study
from conformance.scan.values import MAYBE


def graph_lost(study: Study) -> Iterator[Finding]:
    """Find results of backward that were cut off from the graph, if nothing forbids a second derivative."""
    backward = study.backward
    if backward is None or _guards(backward.method):
        return
    if "once_differentiable" in study.subject.decorators(backward.method):
        return
    cuts = sorted(cut for returned in backward.trace.returns for cut in returned.value.cuts)
    sure = [cut for cut in cuts if not cut[1].startswith(MAYBE)]
    for line, how in (sure or cuts)[:1]:
        message = (
            f"backward returns what {how.removeprefix(MAYBE)} cuts off from the graph here, without once_differentiable"
        )
        yield study.finding("Function.backward.double", "likely" if sure else "possible", line, message)


def _guards(method: ast.FunctionDef) -> bool:
    """Tell whether backward reads the grad mode itself, or refuses as reentrant checkpoints do."""
    watched = {"is_grad_enabled", "set_grad_enabled", "_is_checkpoint_valid"}
    nodes = list(ast.walk(method))
    asks = any(isinstance(node, ast.Attribute | ast.Name) and _last(node) in watched for node in nodes)
    return asks or any(isinstance(node, ast.keyword) and node.arg == "create_graph" for node in nodes)


def _last(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
