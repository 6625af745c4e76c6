"""Earlier calls make no difference: calls that raised, evaluations, other modes, dtypes and batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from conformance.kit import Deviation, NotApplicable, Probe, Subject, World, cases, clause, expect, need, ranks, varies
from conformance.kit.first_calls import calls_after, difference
from conformance.kit.variations.axis import Variation
from conformance.kit.variations.histories import HISTORIES, run_before
from conformance.kit.variations.sizes import holds_no_object

CACHED_FOR_LATER = "a call caches a value that later calls use, although their sizes, dtypes or modes differ"
OBJECTS = "an object among the arguments may remember earlier calls"


@clause("Function.forward.calls-independent")
@cases(
    before=["calls that are refused", "results that are written to", "an evaluation", "calls of other sizes", "a batch"]
)
@varies("as given")
def test_a_call_is_the_same_after_others(probe: Probe, variation: Variation, before: str) -> None:
    """A call gives the same before and after other, independent calls."""
    probe = probe.at(variation)
    need(holds_no_object(probe.sample), OBJECTS)
    first, again = (Probe(probe.world, probe.sample).plain for _ in range(2))
    need(all(map(expect.alike, first.results, again.results)), "two calls in a row differ")
    run_before(before, probe.sample)
    later = Probe(probe.world, probe.sample).plain
    for index, (actual, right) in enumerate(zip(later.results, first.results, strict=True)):
        expect.close(actual, right, f"output {index} of {probe.label} after {before}")
    for at, gradient in later.gradients.items():
        expect.close(gradient, first.gradients[at], f"gradient of {probe.name(at)} after {before}")


@clause("Function.forward.calls-independent")
@ranks(1, group=False)
def test_the_first_call_of_a_process_leaves_nothing_wrong(
    subject: Subject, world: World, in_a_copy: Callable[..., list[Any] | None] | None
) -> str:
    """Whatever calls a process begins with, later calls give the same as without them."""
    if in_a_copy is None or world.device != "cpu":
        raise NotApplicable("it needs new processes, which conformance run has on the CPU only")
    first, again = (in_a_copy(partial(calls_after, None, subject, world)) for _ in range(2))
    if not first or not again or all(isinstance(one, str) for call in first for one in call.values()):
        raise NotApplicable("no call succeeds, or every sample contains an object, which may remember earlier calls")
    need(not difference(first, again) and not difference(first[::2], first[1::2]), "calls in a row differ")
    unjudged = []
    for before in HISTORIES:
        later = in_a_copy(partial(calls_after, before, subject, world))
        if later is None:
            unjudged.append(before)
        elif found := difference(later, first):
            what, actual, expected = found
            raise Deviation(f"{what}, after the process began with {before}", actual, expected, CACHED_FOR_LATER)
    return f"the process ended during or after {', '.join(unjudged)}" if unjudged else ""
