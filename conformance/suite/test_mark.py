"""What a Function declares about inputs and outputs: modified in place, not differentiable, gradients materialized."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit import Deviation, Run, SampleCall, Subject, World, clause, expect, is_strided
from conformance.kit.observation.collectives import calls_without_overlap, unseen_change
from conformance.kit.observation.looks import WitnessedCall, expect_early, expect_once, look_at, looks_with, steps
from conformance.kit.observation.witness import EARLY, ObservedCall

#: Where torch.library makes Functions of operators. Their schemas say what they change, and a collective that was
#: started before may still be filling their inputs.
GENERATED = "torch._library.autograd"


@clause("Function.mark_dirty.once")
def test_mark_dirty_is_called_once(subject: Subject, world: World) -> None:
    """A call calls mark_dirty at most once, and from forward or setup_context."""
    looks = looks_with("mark_dirty", subject, world)
    expect_once(looks, "mark_dirty")
    expect_early(looks, "mark_dirty")


@clause("Function.mark_dirty.only-inputs")
def test_only_inputs_are_marked_dirty_and_all_are_returned(subject: Subject, world: World) -> None:
    """Every argument of mark_dirty is an input of forward, and forward returns it."""
    for name, call, step in steps(looks_with("mark_dirty", subject, world), "mark_dirty"):
        for index, value in enumerate(step.given if step.phase in EARLY else ()):
            what, is_returned = f"argument {index} of mark_dirty, {name}", _among(value, _outputs(call.output))
            expect.that(_among(value, call.inputs), f"{what}: an input of forward", value, "one of the inputs")
            expect.that(is_returned, f"{what}: is returned", "not among the outputs", "returned as it is")


@clause("Function.mark_dirty.complete")
def test_every_changed_input_is_marked_dirty(subject: Subject, world: World) -> None:
    """Every input that forward changes is passed to mark_dirty, in any dtype and for longer samples too."""
    looks = look_at(subject, world, everything=True, derived=True)
    found = list(_unmarked(looks))
    if any(world.exchange(bool(found))) and dist.is_initialized():
        still = _changed_by_themselves(looks, world)
        found = [(look, call, place) for look, call, place in found if (call.function.__qualname__, place) in still]
    firsts = world.exchange([next(at for at, each in enumerate(looks) if each is look) for look, *_ in found[:1]])
    if any(firsts):
        # All ranks make the call again, those too on which nothing was changed: others may wait for them in it.
        again = looks[min(at for first in firsts for at in first)]
        how, moved = _called_again(again)
        if found:
            look, call, place = found[0]
            unseen = how if call.inputs[place]._version == call.versions[place] else ""
            raise Deviation(
                f"input {place} of {call.function.__name__}, {look.sample.label}, which forward changes in place",
                "not passed to mark_dirty",
                "passed to ctx.mark_dirty, and returned",
                (moved or unseen) if look is again else "",
            )


def _unmarked(looks: list[WitnessedCall]) -> Iterator[tuple[WitnessedCall, ObservedCall, int]]:
    """The inputs that a forward changes and does not give to mark_dirty."""
    for look in looks:
        for call in look.witness.calls:
            if call.function.__module__ == GENERATED:
                continue
            marked = [value for step in call.of("mark_dirty") for value in step.given]
            for place in call.changed:
                if not _among(call.inputs[place], marked):
                    yield look, call, place


def _changed_by_themselves(looks: list[WitnessedCall], world: World) -> set[tuple[str, int]]:
    """The inputs that are changed even if no collective of an earlier Function is still filling them."""
    calls = calls_without_overlap(looks, SampleCall.run, world)
    return {(call.function.__qualname__, place) for call in calls for place in call.changed}


@clause("Function.mark_non_differentiable.once")
def test_mark_non_differentiable_is_called_once(subject: Subject, world: World) -> None:
    """A call calls mark_non_differentiable at most once, and from forward or setup_context."""
    looks = looks_with("mark_non_differentiable", subject, world)
    expect_once(looks, "mark_non_differentiable")
    expect_early(looks, "mark_non_differentiable")


@clause("Function.mark_non_differentiable.only-outputs")
def test_only_outputs_are_marked_non_differentiable(subject: Subject, world: World) -> None:
    """Every argument of mark_non_differentiable is a tensor that forward returns."""
    for name, call, step in steps(looks_with("mark_non_differentiable", subject, world), "mark_non_differentiable"):
        for index, value in enumerate(step.given if step.phase in EARLY else ()):
            what = f"argument {index} of mark_non_differentiable, {name}"
            expect.that(isinstance(value, torch.Tensor), f"{what}: a tensor", value, "a tensor")
            expect.that(
                _among(value, _outputs(call.output)),
                f"{what}: an output",
                f"{expect.shown(value)}, {'an input' if _among(value, call.inputs) else 'which is not returned'}",
                "one of the outputs",
            )


@clause("Function.set_materialize_grads.where")
def test_set_materialize_grads_is_called_early(subject: Subject, world: World) -> None:
    """set_materialize_grads is called from forward or setup_context, not from backward, jvp or outside."""
    expect_early(looks_with("set_materialize_grads", subject, world), "set_materialize_grads")


def _called_again(look: WitnessedCall) -> tuple[str, str]:
    """Tell a change through an alias from one by a collective, neither of which is a new version; and one of shape."""
    runs: list[Run] = []
    how = unseen_change(lambda: runs.append(look.sample.run()))
    moved = [_layout(value) for value in runs[0].values] != [_layout(value) for value in look.sample.values]
    return how, "its shape or strides were changed, as t_() and unsqueeze_() do" if moved else ""


def _layout(value: Any) -> tuple[Any, ...]:
    return (value.shape, value.stride()) if isinstance(value, torch.Tensor) and is_strided(value) else ()


def _outputs(output: Any) -> tuple[Any, ...]:
    return tuple(output) if isinstance(output, tuple | list) else (output,)


def _among(value: Any, values: Any) -> bool:
    return any(value is other for other in values)
