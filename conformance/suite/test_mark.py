"""What a Function says of its inputs and outputs: changed in place, not differentiable, gradients made or not."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import expect
from conformance.kit.deviations import need
from conformance.kit.marks import clause
from conformance.kit.steps import at_most_once, only_early, steps
from conformance.kit.subject import Subject
from conformance.kit.watched import judged, watched
from conformance.kit.witness import EARLY
from conformance.kit.world import World

LAST_COUNTS = "of two calls only the last one counts"


@clause("Function.mark_dirty.once")
def test_mark_dirty_is_called_once(subject: Subject, world: World) -> None:
    """A call calls mark_dirty at most once, and from forward or setup_context."""
    looks = watched(subject, world, everything=True)
    need(any(steps(looks, "mark_dirty")), "mark_dirty is not called")
    at_most_once(looks, "mark_dirty", LAST_COUNTS)
    only_early(looks, "mark_dirty")


@clause("Function.mark_dirty.only-inputs")
def test_only_inputs_are_marked_dirty_and_all_are_returned(subject: Subject, world: World) -> None:
    """Every argument of mark_dirty is an input of forward, and forward returns it."""
    looks = watched(subject, world, everything=True)
    need(any(steps(looks, "mark_dirty")), "mark_dirty is not called")
    for look, call, step in steps(looks, "mark_dirty", EARLY):
        for index, value in enumerate(step.given):
            name = f"argument {index} of mark_dirty, {call.function.__name__}, {look.case.label}"
            expect.that(_among(value, call.inputs), f"{name}: an input of forward", value, "one of the inputs")
            expect.that(
                _among(value, _outputs(call.output)),
                f"{name}: is returned",
                "not among the outputs",
                "returned as it is",
            )
    list(judged(looks))


@clause("Function.mark_dirty.complete")
def test_every_changed_input_is_marked_dirty(subject: Subject, world: World) -> None:
    """Every input that holds other values after forward than before is given to mark_dirty."""
    looks = watched(subject, world, everything=True)
    for look in judged(looks):
        for call in look.witness.calls:
            marked = [value for step in call.of("mark_dirty") for value in step.given]
            for place in call.changed:
                expect.that(
                    _among(call.inputs[place], marked),
                    f"input {place} of {call.function.__name__}, {look.case.label}, which forward changes in place",
                    "not given to mark_dirty",
                    "ctx.mark_dirty, and the input returned",
                    "changed through .data, .numpy() or another alias, which autograd does not see"
                    if call.inputs[place]._version <= 1
                    else "",
                )


@clause("Function.mark_non_differentiable.once")
def test_mark_non_differentiable_is_called_once(subject: Subject, world: World) -> None:
    """A call calls mark_non_differentiable at most once, and from forward or setup_context."""
    looks = watched(subject, world, everything=True)
    need(any(steps(looks, "mark_non_differentiable")), "mark_non_differentiable is not called")
    at_most_once(looks, "mark_non_differentiable", LAST_COUNTS)
    only_early(looks, "mark_non_differentiable")


@clause("Function.mark_non_differentiable.only-outputs")
def test_only_outputs_are_marked_non_differentiable(subject: Subject, world: World) -> None:
    """Every argument of mark_non_differentiable is a tensor that forward returns."""
    looks = watched(subject, world, everything=True)
    need(any(steps(looks, "mark_non_differentiable")), "mark_non_differentiable is not called")
    for look, call, step in steps(looks, "mark_non_differentiable", EARLY):
        for index, value in enumerate(step.given):
            name = f"argument {index} of mark_non_differentiable, {call.function.__name__}, {look.case.label}"
            expect.that(isinstance(value, torch.Tensor), f"{name}: a tensor", value, "a tensor")
            expect.that(
                _among(value, _outputs(call.output)),
                f"{name}: an output",
                f"{expect.shown(value)}, {'an input' if _among(value, call.inputs) else 'which is not returned'}",
                "one of the outputs",
            )
    list(judged(looks))


@clause("Function.set_materialize_grads.where")
def test_set_materialize_grads_is_called_early(subject: Subject, world: World) -> None:
    """set_materialize_grads is called from forward or setup_context, not from backward, jvp or outside."""
    looks = watched(subject, world, everything=True)
    need(any(steps(looks, "set_materialize_grads")), "set_materialize_grads is not called")
    only_early(looks, "set_materialize_grads")


def _outputs(output: Any) -> tuple[Any, ...]:
    return tuple(output) if isinstance(output, tuple | list) else (output,)


def _among(value: Any, values: Any) -> bool:
    return any(value is other for other in values)
