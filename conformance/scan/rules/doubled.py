"""Find two members if the contract allows only one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.classes import is_stub
from conformance.scan.model import Finding
from conformance.scan.study import Study


def both_vmap_rules(study: Study) -> Iterator[Finding]:
    """Find ``generate_vmap_rule = True`` beside an own vmap: PyTorch refuses the class under torch.vmap."""
    flag, vmap = study.subject.lookup("generate_vmap_rule"), study.subject.lookup("vmap")
    if flag is None or vmap is None or study.subject not in {flag[0], vmap[0]}:
        return
    statement = flag[1]
    if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_true(statement.value):
        line = (vmap[1] if vmap[0] is study.subject else statement).lineno
        yield study.finding(
            "Function.vmap.not-both", "certain", line, "defines vmap, and sets generate_vmap_rule to True"
        )


def backward_and_vjp(study: Study) -> Iterator[Finding]:
    """Find classes with both backward and vjp: PyTorch refuses to differentiate them."""
    backward, vjp = study.subject.lookup("backward"), study.subject.lookup("vjp")
    if backward is None or vjp is None or study.subject not in {backward[0], vjp[0]}:
        return
    if any(isinstance(found[1], ast.FunctionDef) and is_stub(found[1]) for found in (backward, vjp)):
        return  # a place-holder of a base class
    line = (vjp[1] if vjp[0] is study.subject else backward[1]).lineno
    yield study.finding("Function.backward.vjp-alias", "certain", line, "defines both backward and vjp")


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
