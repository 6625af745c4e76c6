"""Find calls of save_for_backward that are repeated, or in the wrong method."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.model import Confidence, Finding
from conformance.scan.paths import Way, ways
from conformance.scan.study import Study

ONCE = "Function.save_for_backward.once"
WHERE = "Function.save_for_backward.where"


def twice(study: Study) -> Iterator[Finding]:
    """Find two calls on one path: the second replaces what the first saved."""
    for walked in study.keepers:
        calls = _calls(walked.method, walked.takes.ctx)
        if len(calls) < 2:
            continue
        found = ways(walked.method.body, {id(call) for call in calls})
        double = [way for way in found if len(way.seen) > 1]
        if double:
            first, second = double[0].seen[:2]
            sure: Confidence = _sure(found, double)
            message = f"one way through {walked.method.name} calls save_for_backward here and in line {first.lineno}"
            yield study.finding(ONCE, sure, second.lineno, message)


def _sure(found: list[Way], double: list[Way]) -> Confidence:
    if len(double) == len(found):
        return "certain"
    return "likely" if any(way.choices <= 1 for way in double) else "possible"


def elsewhere(study: Study) -> Iterator[Finding]:
    """Find calls in backward, vjp or jvp, which are too late."""
    for name in ("backward", "vjp", "jvp"):
        method = study.subject.own(name)
        takes = study.subject.takes(method) if method else None
        if method is None or takes is None:
            continue
        for call in _calls(method, takes.ctx):
            yield study.finding(WHERE, "certain", call.lineno, f"{name} calls save_for_backward")


def _calls(method: ast.FunctionDef, ctx: str) -> list[ast.Call]:
    """Return the calls of save_for_backward on the method's own ctx, by line."""
    found = [
        node
        for node in ast.walk(method)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "save_for_backward"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == ctx
    ]
    return sorted(found, key=lambda call: call.lineno)
