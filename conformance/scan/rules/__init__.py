"""What can be seen without running. A rule is a function from a studied class to findings of one clause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from conformance.scan.model import Finding
from conformance.scan.rules import changed, collectives, counts, cut, doubled, kept, saved
from conformance.scan.study import Study


@dataclass(frozen=True)
class Rule:
    """A clause, what the scan looks for, and the function that looks."""

    clause: str
    summary: str
    check: Callable[[Study], Iterator[Finding]]


RULES = (
    Rule(
        "Function.forward.no-tensor-on-ctx",
        "a tensor is kept on ctx, not by save_for_backward",
        kept.tensors_on_ctx,
    ),
    Rule(
        "Function.backward.count",
        "backward returns another number of values than forward has inputs",
        counts.gradients,
    ),
    Rule("Function.jvp.count", "jvp returns another number of values than forward has outputs", counts.tangents),
    Rule("Function.vmap.not-both", "the class has both vmap and generate_vmap_rule", doubled.both_vmap_rules),
    Rule("Function.backward.vjp-alias", "the class has both backward and vjp", doubled.backward_and_vjp),
    Rule("Function.save_for_backward.once", "one call of forward may call save_for_backward twice", saved.twice),
    Rule(
        "Function.save_for_backward.where",
        "save_for_backward is called outside forward and setup_context",
        saved.elsewhere,
    ),
    Rule(
        "Function.backward.grads-untouched",
        "backward changes an incoming gradient in place",
        changed.gradients,
    ),
    Rule(
        "Function.mark_dirty.complete",
        "forward changes an input in place that is not marked dirty",
        changed.inputs,
    ),
    Rule("Function.backward.double", "backward leaves the graph without once_differentiable", cut.graph_lost),
    Rule(
        "Function.backward.gradient",
        "forward exchanges tensors between ranks and backward does not",
        collectives.one_sided,
    ),
)
