"""A call leaves unchanged what it borrows from its caller, in every variation: arguments, lists, gradients, hooks."""

from __future__ import annotations

from conformance.kit import Probe, clause, expect, need, varies
from conformance.kit.modes import RecordedMode
from conformance.kit.variations.axis import Variation

ALREADY = "without variation it changes them too, and another test reports it"


@clause("Function.mark_dirty.complete")
@varies("as given", "size", "number", "choice", "value")
def test_arguments_are_written_to_where_they_are_marked(probe: Probe, variation: Variation) -> None:
    """With other sizes, numbers and flags, forward writes to no argument that it does not return, marked dirty."""
    need(probe.sample.subject.function, "a plain callable may write to its arguments")
    changed = probe.go(variation).changes("argument")
    expect.that(
        not changed, "arguments of forward", "; ".join(changed), "unchanged, or passed to ctx.mark_dirty and returned"
    )


@clause("Function.forward.inputs-untouched")
@varies("as given", "size", "number", "choice", "value", "gradient form")
def test_arguments_and_containers_are_left_alone(probe: Probe, variation: Variation) -> None:
    """Backward changes no argument, no gradient or result secretly shares its memory, and containers stay."""
    observed = probe.go(variation)
    is_wanted = probe.plain.changes("result") or not probe.sample.subject.function  # as some documents have it
    kinds = ("container", "values", "memory", *(() if is_wanted else ("result",)))
    changed = [words for kind in kinds for words in observed.changes(kind)]
    expect.that(not changed, "arguments of the call", "; ".join(changed), "as it was")


@clause("Function.backward.grads-untouched")
@varies("choice", "number", "needs", "used", "gradient layout", "gradient form")
def test_incoming_gradients_are_left_alone_in_any_form(probe: Probe, variation: Variation) -> None:
    """Incoming gradients have the same values after backward, in all variations."""
    need(not probe.plain.changes("gradient"), ALREADY)
    changed = probe.go(variation).changes("gradient")
    expect.that(not changed, "incoming gradients", "; ".join(changed), "as they were handed in")


@clause("Function.forward.flags-untouched")
@varies("as given", "parameter")
def test_no_hook_is_left_on_an_argument(probe: Probe, variation: Variation) -> None:
    """After forward and backward an argument has the hooks that it had."""
    changed = probe.go(variation).changes("hook")
    expect.that(not changed, "arguments of the call", "; ".join(changed), "as it was")


@clause("Function.save_for_backward.protects")
@varies("parameter")
def test_a_step_of_an_optimizer_before_backward_is_noticed(probe: Probe, variation: Variation) -> None:
    """If a parameter is changed after forward, backward raises an error, or gives the same as without the change.

    It may be an argument, or belong to a module that is one too. Each changes alone. What runs a module again in
    backward finds the parameters that are there then, as a checkpoint does.
    """
    changed = [pick.at for pick in variation.of("parameter")]
    modules = probe.sample.of_modules
    for place in (*changed, *(() if modules and _runs_again(probe) else modules)):
        try:
            actual = probe.go(variation, step=[place])
        except RuntimeError:  # as it should
            continue
        for at, gradient in actual.gradients.items():
            what = f"gradient of {probe.name(at)} after a step of the optimizer for {probe.sample.names[place]}"
            expect.close(gradient, probe.plain.gradients[at], what)


def _runs_again(probe: Probe) -> bool:
    run = probe.sample.run()
    cotangents = run.cotangents(probe.world)
    with RecordedMode() as mode:
        run.gradients(cotangents)
    return bool(mode.found)
