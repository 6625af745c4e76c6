"""Find numbers of returned values that cannot match."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from conformance.core.prose import counted
from conformance.scan.classes import Parameters
from conformance.scan.model import Confidence, Finding, weakest
from conformance.scan.study import Study, Walked
from conformance.scan.trace import Returned
from conformance.scan.values import NONE, Value


def gradients(study: Study) -> Iterator[Finding]:
    """Check that backward returns one value per input of forward; PyTorch allows extra Nones at the end."""
    backward, forward = study.backward, study.subject.method("forward")
    takes = study.subject.takes(forward) if forward else None
    if backward is None or forward is None or takes is None or _is_unclear(study, backward):
        return
    if has_ctx_too(study, takes):  # which another rule reports
        return
    seen: set[int] = set()
    for returned in backward.trace.returns or _forgotten(backward):
        count, sure = length(returned.value)
        if count is None or count in seen:
            continue
        wanted = _mismatch(study, takes, returned.value, count) or _given(study, takes, count)
        if wanted is None:
            continue
        seen.add(count)
        values, inputs = counted(count, "value"), counted(wanted, "input")
        message = f"{backward.method.name} returns {values} here, forward takes {inputs}"
        yield study.finding("Function.backward.count", _sure(study, backward, returned, sure), returned.line, message)


def tangents(study: Study) -> Iterator[Finding]:
    """Check that jvp returns one value per output of forward."""
    jvp, forward = study.jvp, study.any_forward
    if jvp is None or forward is None or study.subject.strange_decorators(forward.method):
        return
    outputs = {length(returned.value) for returned in forward.trace.returns}
    if len({count for count, _ in outputs}) != 1:
        return
    (wanted, first), *_ = outputs
    for returned in jvp.trace.returns:
        count, sure = length(returned.value)
        if count is not None and wanted is not None and count != wanted and returned.value.kind != "none":
            message = f"jvp returns {counted(count, 'value')} here, forward has {counted(wanted, 'output')}"
            yield study.finding(
                "Function.jvp.count",
                weakest(sure, first, _sure(study, jvp, returned, sure)),
                returned.line,
                message,
            )
            return


def has_ctx_too(study: Study, takes: Parameters) -> bool:
    """Tell whether a forward in the separate form begins with a ctx, which PyTorch does not pass."""
    return study.subject.separate and takes.names[:1] in {("ctx",), ("context",)}


def _is_unclear(study: Study, backward: Walked) -> bool:
    """Tell whether other code may run than was found: an unread base in between, or a generator."""
    if not study.subject.complete and study.subject.own("forward") is None:
        return True
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(backward.method))


def _forgotten(backward: Walked) -> list[Returned]:
    """Return what a backward without a return statement returns: one None."""
    computes = any(isinstance(node, ast.Assign | ast.AugAssign) for node in backward.method.body)
    return [Returned(backward.method.body[-1].lineno, NONE)] if backward.trace.comes_out and computes else []


def _given(study: Study, takes: Parameters, count: int) -> int | None:
    """Return how many arguments the class is applied to in its own file, if more than ``count``.

    Otherwise it is unknown whether an argument with a default is passed.
    """
    if takes.rest or count >= len(takes.names):
        return None
    module, most = study.subject.module, 0
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and module.names.full(node.func) == f"{study.subject.qualname}.apply":
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            most = max(most, 0 if starred else len(node.args))
    return most if most > count else None


def length(value: Value) -> tuple[int | None, Confidence]:
    """Return how many values a return statement has, if that can be seen, and how surely."""
    if value.kind == "tuple":
        return (len(value.items) if value.items is not None else None), "certain"
    if value.is_tensor:
        return (1, value.sure) if value.sure != "possible" else (None, "possible")
    if value.kind in {"list", "dict"} and value.items is not None:
        return 1, "certain"  # PyTorch takes a list for one value
    return (1, "likely") if value.kind == "none" else (None, "possible")


def _mismatch(study: Study, takes: Parameters, value: Value, count: int) -> int | None:
    """Return the number of inputs that the count cannot match, or None if it can."""
    if count < takes.required:
        return takes.required
    if takes.rest:
        return None
    total = len(takes.names)
    if count < total:
        # Defaults of a separate forward are filled in; else it depends on how apply is called.
        return total if study.subject.separate else None
    extra = value.items[total:] if value.items is not None else ()
    return total if any(item.kind != "none" for item in extra) else None


def _sure(study: Study, walked: Walked, returned: Returned, sure: Confidence) -> Confidence:
    strange = study.subject.strange_decorators(walked.method)
    forward = study.subject.method("forward")
    strange = strange or (forward is not None and study.subject.strange_decorators(forward))
    return weakest(sure, "likely") if strange else sure
