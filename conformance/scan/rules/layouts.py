"""Collectives that work on a copy where a tensor is not contiguous, while the tensor itself is handed on."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.scan.model import Finding
from conformance.scan.study import Study, Walked


def lost_in_forward(study: Study) -> Iterator[Finding]:
    """``all_reduce(x.contiguous())`` and then ``x`` is returned: equal inputs of another layout give another result."""
    yield from _lost(study, study.forward, "Function.forward.deterministic")


def lost_in_backward(study: Study) -> Iterator[Finding]:
    """The same with an incoming gradient."""
    yield from _lost(study, study.backward, "Function.backward.any-layout")


def _lost(study: Study, walked: Walked | None, clause: str) -> Iterator[Finding]:
    if walked is None:
        return
    items = [item for returned in walked.trace.returns for item in (returned.value.items or (returned.value,))]
    handed_on = frozenset().union(*(item.shares for item in items))
    for change in walked.trace.lost:
        names = change.shares & handed_on & {*walked.takes.names, walked.takes.rest}
        if names:
            message = (
                f"{change.how} works on a copy of {', '.join(sorted(names))} where that is not contiguous, "
                f"and {walked.method.name} returns it unchanged"
            )
            yield study.finding(clause, change.confidence, change.line, message)
            return
