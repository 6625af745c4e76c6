"""Call ``backward`` in many ways and repeatedly: gradients are right, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import torch
import torch.distributed as dist

from conformance.kit import expect
from conformance.kit.backward import need_backward
from conformance.kit.calls import Run, SampleCall, differentiate, differentiated
from conformance.kit.deviations import Deviation, NotApplicable, need
from conformance.kit.gradients import Gradients
from conformance.kit.marks import clause
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.observation.collectives import unseen_change
from conformance.kit.observation.looks import Look, look_at
from conformance.kit.observation.overlap import calls_without_overlap
from conformance.kit.observation.witness import Backward, Call
from conformance.kit.subject import Subject
from conformance.kit.tensors import is_strided, same_values
from conformance.kit.variations.equal_calls import beside_equal_calls
from conformance.kit.variations.layouts import GRADIENT_LAYOUTS, lies_otherwise
from conformance.kit.variations.variants import in_dtype
from conformance.kit.world import World

#: Subsets of inputs are tried in full up to this many inputs.
IN_FULL = 4


@clause("Function.backward.accepts")
def test_it_takes_one_value_for_each_output(subject: Subject, world: World) -> None:
    """Backward has room for ctx and as many values as forward had outputs."""
    seen = 0
    for look in look_at(subject, world):
        for call in look.witness.calls:
            seen += len(call.backwards) + len(call.refused)
            for refused in call.refused:
                name = f"{call.function.__name__}.backward, {look.sample.label}"
                raise refused.accusing(name, "ctx, and one for each output of forward")
    need(seen, "no backward of a Function class was reached")


@clause("Function.backward.count")
def test_one_value_for_each_input(subject: Subject, world: World) -> None:
    """Backward returns as many values as forward had inputs; further Nones do no harm."""
    seen = 0
    for look in look_at(subject, world):
        for call in look.witness.calls:
            for backward in call.backwards:
                seen += 1
                expected = len(call.inputs)
                name = f"{call.function.__name__}.backward, {look.sample.label}"
                expect.that(
                    not isinstance(backward.returned, list),
                    f"{name}: a value, or a tuple of values",
                    "a list",
                )
                values = backward.returned if isinstance(backward.returned, tuple) else (backward.returned,)
                rest = values[expected:]
                expect.that(
                    len(values) >= expected and all(value is None for value in rest),
                    f"{name}: number of values returned",
                    len(values),
                    f"{expected}, one for each input of forward",
                )
    need(seen, "no backward of a Function class was reached")


@clause("Function.backward.needs-input-grad-honoured")
def test_every_choice_of_inputs_gets_its_gradients(subject: Subject, world: World) -> None:
    """Whichever inputs need a gradient, each gets the one that it gets when all do."""
    tried = 0
    for sample, run in differentiated(subject, world):
        choices = list(_choices(sample))
        if not choices:
            continue
        cotangents = dict(zip(run.places, run.cotangents(world), strict=True))
        whole = dict(zip(run.leaves, run.filled(run.gradients(list(cotangents.values()))), strict=True))
        precision = working_epsilon(sample, world)
        for chosen in choices:
            tried += 1
            among = f"when only {', '.join(sample.names[at] for at in chosen)} requires grad ({sample.label})"
            with expect.no_error(f"gradients {among}", "the gradients"):
                actual = _chosen_gradients(sample, chosen, cotangents)
            for at in chosen:
                what = f"gradient of {sample.names[at]} {among}, compared with all inputs requiring grad"
                expect.close(actual[at], whole[at], what, precision=precision)
    need(tried, "one input alone is differentiated; there is nothing to choose")


def _choices(sample: SampleCall) -> Iterator[tuple[int, ...]]:
    count = len(sample.active)
    sizes = range(1, count) if count <= IN_FULL else (1, count - 1)
    for size in sizes:
        yield from combinations(sample.active, size)


def _chosen_gradients(
    sample: SampleCall, chosen: tuple[int, ...], cotangents: dict[int, torch.Tensor]
) -> dict[int, torch.Tensor]:
    run = sample.run(needed=chosen)
    found = run.gradients([cotangents[place] for place in run.places]) if run.outputs else (None,) * len(chosen)
    return dict(zip(run.leaves, run.filled(found), strict=True))


@clause("Function.backward.grads-untouched")
def test_incoming_gradients_are_left_alone(subject: Subject, world: World) -> None:
    """The gradients handed to backward hold the same values afterwards, in any dtype, of longer samples too."""
    need_backward(subject)
    looks = look_at(subject, world, derived=True)
    seen = any(look.cotangents or any(call.backwards for call in look.witness.calls) for look in looks)
    need(any(world.exchange(seen)), "no backward came to its end")
    changing = list(_changing_gradients(looks))
    if any(world.exchange(bool(changing))) and dist.is_initialized():
        calls = calls_without_overlap(looks, differentiate, world)
        still = {call.function for call in calls if any(backward.changed for backward in call.backwards)}
        changing = [each for each in changing if each[1].function in still]
    for look in looks:
        for index, (before, after) in enumerate(look.cotangents):
            if not same_values(before, after):
                changed, handed_in = expect.shown_apart(after, before)
                raise Deviation(
                    f"gradient of output {index}, {look.sample.label}, after backward",
                    changed,
                    f"{handed_in}, as it was handed in",
                    _how_changed(look.sample, after, world),
                )
    for look, call, backward in changing:
        raise Deviation(
            f"{call.function.__name__}.backward, {look.sample.label}: incoming gradients changed in place",
            f"changed: {list(backward.changed)}",
            "none changed",
        )


def _changing_gradients(looks: Sequence[Look]) -> Iterator[tuple[Look, Call, Backward]]:
    """The calls of a backward that leave an incoming gradient with other values."""
    for look in looks:
        for call in look.witness.calls:
            yield from ((look, call, backward) for backward in call.backwards if backward.changed)


def _how_changed(sample: SampleCall, gradient: torch.Tensor, world: World) -> str:
    """Tell an operation in place on the gradient, which makes a new version of it, from what autograd does not see."""
    if gradient._version:
        return "backward works in place on the gradient"
    # A call more on one rank would wait for the others.
    return unseen_change(partial(differentiate, sample)) if world.size == 1 else ""


@clause("Function.backward.any-layout")
def test_layout_of_incoming_gradients_makes_no_difference(subject: Subject, world: World) -> None:
    """Gradients expanded, transposed, sliced, cut out or with channels last give what others give."""
    tried = 0
    given = differentiated(subject, world)
    for sample, first in [*given, *_in_other_precisions(given)]:
        plain = first.cotangents(world)
        if not all(map(is_strided, plain)):
            continue
        is_drawn = not _same(first.gradients(plain, seed=1), sample.run().gradients(plain, seed=2))
        if any(world.exchange(is_drawn)):  # be it by one rank alone
            raise NotApplicable("backward draws random numbers, and what is drawn follows the layout")
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
            with expect.no_error(f"gradients of {name}", "what contiguous ones give"):
                actual = run.gradients(odd)
            with beside_equal_calls(sample, even, world):
                for at, one, other in zip(run.leaves, run.filled(actual), run.filled(right), strict=True):
                    what = f"gradient of {sample.names[at]} of {name}, against contiguous ones"
                    expect.close(one, other, what, precision=precision)
    need(tried, "every output is a single number, empty or sparse; there is one layout")


def _in_other_precisions(given: list[tuple[SampleCall, Run]]) -> Iterator[tuple[SampleCall, Run]]:
    """The samples in single and in double precision, if the subject takes them so, there and back."""
    for sample, dtype in product([sample for sample, _ in given], (torch.float32, torch.float64)):
        derived = in_dtype(sample, dtype)
        if derived is None:
            continue
        try:
            differentiate(derived)
        except Exception:  # the subject need not take what it was not made for
            continue
        run = replace(derived, label=f"{sample.label} in {str(dtype).removeprefix('torch.')}").run()
        if run.outputs:
            yield run.sample, run


def _same(one: Gradients, other: Gradients) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and same_values(a, b))
        for a, b in zip(one, other, strict=True)
    )


@clause("Function.backward.repeatable")
def test_a_second_backward_gives_the_same(subject: Subject, world: World) -> None:
    """With retain_graph=True a second backward pass gives the gradients of the first."""
    if getattr(subject.function, "clear_saved_tensors_on_access", False):
        raise NotApplicable("the class asks for its saved tensors to be freed as they are read")
    for sample, run in differentiated(subject, world):
        first = [gradient.clone() for gradient in run.filled(run.gradients(run.cotangents(world), retain_graph=True))]
        name = f"{sample.label}, second backward pass over a retained graph"
        with expect.no_error(name, "the gradients of the first"):
            second = run.gradients(run.cotangents(world), retain_graph=True)
        with beside_equal_calls(sample, run.cotangents(world), world):
            for at, one, other in zip(run.leaves, run.filled(second), first, strict=True):
                expect.close(one, other, f"gradient of {sample.names[at]} of {name}")


@clause("Function.backward.unused-output")
def test_unused_outputs_count_as_zero(subject: Subject, world: World) -> None:
    """With only one of several outputs in the loss, gradients are those with zeros handed in for the others."""
    tried = 0
    for sample, first in differentiated(subject, world):
        cotangents = first.cotangents(world)
        # Zeros may be added in a coarser precision than the rest is computed in.
        precision = working_epsilon(sample, world) if len(cotangents) > 1 else 0.0
        for index, cotangent in enumerate(cotangents if len(cotangents) > 1 else ()):
            tried += 1
            zeros = [c if other == index else torch.zeros_like(c) for other, c in enumerate(cotangents)]
            right, run = sample.run().gradients(zeros), sample.run()
            name = f"{sample.label} with differentiable output {index} alone in the loss"
            with expect.no_error(f"gradients of {name}", "the gradients", _none_unmet):
                actual = run.gradients_of([run.outputs[index]], [cotangent])
            for at, one, other in zip(run.leaves, run.filled(actual), run.filled(right), strict=True):
                what = f"gradient of {sample.names[at]} of {name}, against zeros handed in for the others"
                expect.close(one, other, what, precision=precision)
    need(tried, "the result has one differentiable output, and it is always used")


def _none_unmet(error: Exception) -> str:
    return "backward does not expect None, which set_materialize_grads(False) asks for" if "None" in str(error) else ""
