"""Find collectives that work on a copy if a tensor is not contiguous, while the tensor itself is returned."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.scan.model import Finding
from conformance.scan.study import Study, Walked


def lost_in_forward(study: Study) -> Iterator[Finding]:
    """Find ``all_reduce(x.contiguous())`` if ``x`` is then returned: the result depends on the layout."""
    yield from _lost(study, study.forward, "Function.forward.deterministic")


def lost_in_backward(study: Study) -> Iterator[Finding]:
    """Find the same with an incoming gradient."""
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
                f"{change.how} works on a copy of {', '.join(sorted(names))} if that is not contiguous, "
                f"and {walked.method.name} returns it unchanged"
            )
            yield study.finding(clause, change.confidence, change.line, message)
            return
