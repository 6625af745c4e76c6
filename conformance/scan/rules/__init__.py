"""Find broken clauses without running. A rule is a function from a studied class to findings of one clause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from conformance.scan.model import Finding
from conformance.scan.rules import (
    accepts,
    changed,
    collectives,
    counts,
    cut,
    doubled,
    groups,
    kept,
    layouts,
    repeats,
    saved,
    unused,
)
from conformance.scan.study import Study


@dataclass(frozen=True)
class Rule:
    """A clause, what the scan looks for, and the function that does."""

    clause: str
    summary: str
    check: Callable[[Study], Iterator[Finding]]


RULES = (
    Rule(
        "Function.forward.no-tensor-on-ctx",
        "a tensor is kept on ctx instead of by save_for_backward",
        kept.tensors_on_ctx,
    ),
    Rule(
        "Function.apply.accepts",
        "forward takes a ctx that setup_context has taken over, or setup_context other than ctx, inputs and output",
        accepts.by_forward,
    ),
    Rule(
        "Function.backward.accepts",
        "backward takes another number of values than forward has outputs",
        accepts.by_backward,
    ),
    Rule("Function.jvp.accepts", "jvp takes another number of values than forward has inputs", accepts.by_jvp),
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
    Rule("Function.backward.gradient", "backward never looks at its incoming gradient", unused.incoming),
    Rule(
        "Function.backward.gradient",
        "backward exchanges within a group and counts by ranks of the world",
        groups.world_rank,
    ),
    Rule(
        "Function.forward.deterministic",
        "a collective of forward works on a copy if its input is not contiguous",
        layouts.lost_in_forward,
    ),
    Rule(
        "Function.backward.any-layout",
        "a collective of backward works on a copy if its gradient is not contiguous",
        layouts.lost_in_backward,
    ),
    Rule("Function.backward.repeatable", "backward takes from ctx what it reads", repeats.taken_away),
    Rule("Function.backward.repeatable", "backward changes a saved tensor in place", repeats.saved_changed),
)
