"""Find in-place changes: of incoming gradients in backward, of inputs in forward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.scan.model import Finding, at_least, weakest
from conformance.scan.study import Study
from conformance.scan.trace import Change


def gradients(study: Study) -> Iterator[Finding]:
    """Find incoming gradients that backward changes: others may hold the same tensor."""
    if study.backward is None:
        return
    incoming = {*study.backward.takes.names, study.backward.takes.rest} - {""}
    for change, names in _first_of_each(study.backward.trace.changes, incoming):
        message = f"changes the incoming gradient {names} in place, by {change.how}"
        yield study.finding("Function.backward.grads-untouched", change.confidence, change.line, message)


def inputs(study: Study) -> Iterator[Finding]:
    """Find inputs that forward changes and the class never marks as dirty."""
    forward = study.forward
    if forward is None:
        return
    marked = _marked(study)
    if marked is None:
        return
    taken = {*forward.takes.names, forward.takes.rest} - {""}
    for change, names in _first_of_each(forward.trace.changes, taken - marked):
        sure = weakest(change.confidence, "likely")  # often meant for a buffer, which needs no gradient
        message = f"changes the input {names} in place, by {change.how}, without ctx.mark_dirty"
        yield study.finding("Function.mark_dirty.complete", sure, change.line, message)


def _first_of_each(changes: list[Change], wanted: set[str]) -> Iterator[tuple[Change, str]]:
    """Yield the surest change of each name, earliest first; merely possible ones are left out."""
    seen: set[str] = set()
    for change in sorted(changes, key=lambda change: (change.confidence != "certain", change.line)):
        new = (change.shares & wanted) - seen
        if new and at_least(change.confidence, "likely"):
            seen |= new
            yield change, ", ".join(sorted(new))


def _marked(study: Study) -> set[str] | None:
    """Return the names passed to mark_dirty; None if ctx goes where it cannot be followed."""
    names: set[str] = set()
    for walked in study.keepers:
        for node in ast.walk(walked.method):
            if not isinstance(node, ast.Call):
                continue
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "mark_dirty":
                if any(not isinstance(value, ast.Name) for value in values):
                    return None
                names.update(value.id for value in values if isinstance(value, ast.Name))
            elif any(isinstance(value, ast.Name) and value.id == walked.takes.ctx for value in values):
                return None
    return names
