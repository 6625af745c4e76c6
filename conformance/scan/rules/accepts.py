"""Find methods that do not accept the arguments that PyTorch passes."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.core.prose import counted
from conformance.scan.classes import Method, Parameters
from conformance.scan.model import Finding
from conformance.scan.rules.counts import has_ctx_too, length
from conformance.scan.study import Study


def by_forward(study: Study) -> Iterator[Finding]:
    """Check that a separate forward has no ctx, and that setup_context takes ctx, inputs and output."""
    forward, setup = study.subject.own("forward"), study.subject.own("setup_context")
    takes = _takes(study, forward)
    if forward and takes and has_ctx_too(study, takes):
        message = f"forward takes {takes.names[0]}, but with setup_context PyTorch calls forward without it"
        yield study.finding("Function.apply.accepts", "likely", forward.lineno, message)
    takes = _takes(study, setup)
    if setup and takes and _has_no_room(takes, 2):
        message = f"setup_context takes {_values(takes)} after {takes.ctx}; PyTorch passes it inputs and output"
        yield study.finding("Function.apply.accepts", "certain", setup.lineno, message)


def by_backward(study: Study) -> Iterator[Finding]:
    """Check that backward takes one value for each output of forward."""
    method, forward = study.subject.own("backward") or study.subject.own("vjp"), study.any_forward
    takes = _takes(study, method)
    if method is None or takes is None or forward is None or study.subject.strange_decorators(forward.method):
        return
    counts = {length(returned.value)[0] for returned in forward.trace.returns}
    count = counts.pop() if len(counts) == 1 else None
    if count is not None and _has_no_room(takes, count):
        message = f"{method.name} takes {_values(takes)} after {takes.ctx}, forward has {counted(count, 'output')}"
        yield study.finding("Function.backward.accepts", "likely", method.lineno, message)


def by_jvp(study: Study) -> Iterator[Finding]:
    """Check that jvp takes one value for each input of forward."""
    method, forward = study.subject.own("jvp"), study.any_forward
    takes = _takes(study, method)
    if method is None or takes is None or forward is None or study.subject.strange_decorators(forward.method):
        return
    inputs = study.subject.takes(forward.method)  # in the form of this class, not of the base
    if inputs is None:
        return
    too_many = takes.required > len(inputs.names) and not inputs.rest
    too_few = len(takes.names) < inputs.required and not takes.rest
    if too_many or too_few:
        message = f"jvp takes {_values(takes)} after {takes.ctx}, forward takes {counted(inputs.required, 'input')}"
        yield study.finding("Function.jvp.accepts", "certain", method.lineno, message)


def _takes(study: Study, method: Method | None) -> Parameters | None:
    if method is None or not study.subject.complete or study.subject.strange_decorators(method):
        return None
    return study.subject.takes(method)


def _has_no_room(takes: Parameters, count: int) -> bool:
    return takes.required > count or (len(takes.names) < count and not takes.rest)


def _values(takes: Parameters) -> str:
    most = len(takes.names)
    few = "" if takes.required == most else f"{takes.required} to "
    return few + counted(most, "value")
