"""Call ``backward`` in many ways and repeatedly: gradients are right, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import torch
import torch.distributed as dist

from conformance.kit import (
    Deviation,
    NotApplicable,
    Probe,
    SampleCall,
    Subject,
    World,
    clause,
    differentiated,
    expect,
    is_strided,
    many,
    need,
    same_values,
)
from conformance.kit.backward import need_backward
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.observation.collectives import calls_without_overlap, unseen_change
from conformance.kit.observation.looks import backwards, look_at, named_calls
from conformance.kit.sample_calls import differentiate
from conformance.kit.variations.layouts import GRADIENT_LAYOUTS, lies_otherwise
from conformance.kit.variations.variants import in_dtype


@clause("Function.backward.accepts")
def test_it_takes_one_value_for_each_output(subject: Subject, world: World) -> None:
    """Backward accepts ctx and as many values as forward had outputs."""
    looks = look_at(subject, world)
    for name, call in named_calls(looks, ".backward"):
        for refused in call.refused:
            raise refused.accusing(name, "ctx, and one for each output of forward")
    backwards(looks)


@clause("Function.backward.count")
def test_one_value_for_each_input(subject: Subject, world: World) -> None:
    """Backward returns as many values as forward had inputs; extra Nones are accepted."""
    for name, call, backward in backwards(look_at(subject, world)):
        expect.that(not isinstance(backward.returned, list), f"{name}: a value, or a tuple of values", "a list")
        actual, expected = many(backward.returned), len(call.inputs)
        is_right = len(actual) >= expected and all(value is None for value in actual[expected:])
        what = f"{name}: number of values returned"
        expect.that(is_right, what, len(actual), f"{expected}, one for each input of forward")


@clause("Function.backward.grads-untouched")
def test_incoming_gradients_are_left_alone(subject: Subject, world: World) -> None:
    """Incoming gradients have the same values after backward, in any dtype, and for longer samples too."""
    need_backward(subject)
    looks = look_at(subject, world, derived=True)
    seen = any(look.cotangents or any(call.backwards for call in look.witness.calls) for look in looks)
    need(any(world.exchange(seen)), "no backward completed")
    calls = named_calls(looks, ".backward")
    changing = [(name, call, each) for name, call in calls for each in call.backwards if each.changed]
    if any(world.exchange(bool(changing))) and dist.is_initialized():
        apart = calls_without_overlap(looks, differentiate, world)
        still = {call.function for call in apart if any(backward.changed for backward in call.backwards)}
        changing = [each for each in changing if each[1].function in still]
    for look in looks:
        for index, (before, after) in enumerate(look.cotangents):
            if not same_values(before, after):
                changed, handed_in = expect.shown_apart(after, before)
                raise Deviation(
                    f"gradient of output {index}, {look.sample.label}, after backward",
                    changed,
                    f"{handed_in}, unchanged",
                    _how_changed(look.sample, after, world),
                )
    for name, _, backward in changing:
        what = f"{name}: incoming gradients changed in place"
        raise Deviation(what, f"changed: {list(backward.changed)}", "none changed")


def _how_changed(sample: SampleCall, gradient: torch.Tensor, world: World) -> str:
    """Distinguish an in-place operation, which gives the gradient a new version, from unnoticed changes."""
    if gradient._version:
        return "backward changes the gradient in place"
    # A call more on one rank would wait for the others.
    return unseen_change(partial(differentiate, sample)) if world.size == 1 else ""


@clause("Function.backward.any-layout")
def test_layout_of_incoming_gradients_makes_no_difference(subject: Subject, world: World) -> None:
    """Incoming gradients expanded, transposed, sliced, cut out or channels-last give the same as contiguous ones."""
    tried = 0
    given = [sample for sample, _ in differentiated(subject, world)]
    for probe in [Probe(world, sample) for sample in (*given, *_in_other_precisions(given, world))]:
        sample, plain = probe.sample, probe.cotangents
        if not all(map(is_strided, plain)):
            continue
        another = sample.run()
        is_drawn = not all(map(same_values, probe.gradients, another.filled(another.gradients(plain, seed=2))))
        if any(world.exchange(is_drawn)):  # be it by one rank alone
            raise NotApplicable("backward draws random numbers that depend on the layout")
        precision = working_epsilon(sample, world)
        for layout, arrange in GRADIENT_LAYOUTS.items():
            odd = [arrange(cotangent.clone()) for cotangent in plain]
            even = [cotangent.clone(memory_format=torch.contiguous_format) for cotangent in odd]
            changed = any(map(lies_otherwise, odd, even))
            if not any(world.exchange(changed)):  # results may have another shape on every rank
                continue
            tried += 1
            name = f"{sample.label}, incoming gradients {layout}"
            right, run = sample.run().gradients(even), sample.run()
            with expect.no_error(f"gradients of {name}", "the same as for contiguous ones"):
                actual = run.gradients(odd)
            with probe.unless_noisy():
                for at, one, other in zip(run.leaves, run.filled(actual), run.filled(right), strict=True):
                    what = f"gradient of {sample.names[at]} of {name}, compared with contiguous ones,"
                    expect.close(one, other, what, precision=precision)
    need(tried, "every output is a single number, empty or sparse; there is one layout")


def _in_other_precisions(given: list[SampleCall], world: World) -> Iterator[SampleCall]:
    """Return the samples in single and in double precision, if forward and backward accept them on all ranks."""
    for sample, dtype in product(given, (torch.float32, torch.float64)):
        derived = in_dtype(sample, dtype)
        is_differentiated = world.try_call(lambda made: made and differentiate(made), derived)
        if derived and is_differentiated:
            yield replace(derived, label=f"{sample.label} in {str(dtype).removeprefix('torch.')}")


@clause("Function.backward.repeatable")
def test_a_second_backward_gives_the_same(probe: Probe) -> None:
    """With retain_graph=True a second backward pass gives the gradients of the first."""
    is_freed = getattr(probe.sample.subject.function, "clear_saved_tensors_on_access", False)
    need(not is_freed, "the class frees its saved tensors as they are read")
    run, how = probe.sample.run(), "of a second backward pass over a retained graph"
    run.gradients(probe.cotangents, retain_graph=True)
    with expect.no_error(f"gradients of {probe.label} {how}", "the gradients of the first"):
        second = run.gradients(probe.cotangents, retain_graph=True)
    probe.expect_gradients(second, how)
