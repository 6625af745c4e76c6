"""How ``jvp`` treats tensors: its incoming tangents, its results, and the call's arguments."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import NO_JVP, Probe, SampleCall, Subject, World, clause, expect, many, need, seeds
from conformance.kit.numerics.nearby import drawn_direction
from conformance.kit.observation.ctx_tensors import tensors_on
from conformance.kit.observation.looks import forward_mode_run, jvps, look_at_forward_mode
from conformance.kit.observation.witness import ObservedCall
from conformance.kit.seeds import expect_not_seeded
from conformance.kit.variations.transforms import tangents


@clause("Function.jvp.tangents-untouched")
def test_tangents_are_left_alone(subject: Subject, world: World) -> None:
    """Tangents have the same values after jvp, long ones too, unless forward changes the input."""
    for name, call, jvp in jvps(look_at_forward_mode(subject, world, derived=True)):
        own = _changed_by_forward(call)
        changed = [str(place) for place in jvp.changed if place not in own]
        told = f"those of inputs {', '.join(changed)} changed"
        expect.that(not changed, f"tangents after {name}", told, "all unchanged")


def _changed_by_forward(call: ObservedCall) -> set[int]:
    """The places of inputs that forward changes in place, or says that it does."""
    marked = {id(value) for step in call.of("mark_dirty") for value in step.given}
    return {*call.changed, *(place for place, value in enumerate(call.inputs) if id(value) in marked)}


@clause("Function.jvp.dtype")
def test_tangents_have_the_dtype_of_their_outputs(subject: Subject, world: World) -> None:
    """A tangent from jvp has the dtype and device of its output."""
    seen = 0
    for name, call, jvp in jvps(look_at_forward_mode(subject, world)):
        for index, (tangent, output) in enumerate(zip(many(jvp.returned), many(call.output), strict=False)):
            if isinstance(tangent, torch.Tensor) and isinstance(output, torch.Tensor):
                seen += 1
                expect.that(
                    (tangent.dtype, tangent.device) == (output.dtype, output.device),
                    f"tangent of output {index} as returned by {name}",
                    f"{tangent.dtype} on {tangent.device}",
                    f"{output.dtype} on {output.device}, as the output",
                )
    need(any(world.exchange(bool(seen))), "jvp returned no tensor")


@clause("Function.jvp.tangent")
def test_tangents_are_the_same_without_grad_mode(probe: Probe) -> None:
    """Under no_grad, as a Jacobian is computed, tangents are the same."""
    world, sample = probe.world, probe.sample
    need(sample.subject.defines("jvp"), NO_JVP)
    need(not probe.draws, "it draws random numbers")
    direction = drawn_direction(sample, world, "tangent")
    right = world.try_call(tangents, sample, direction)
    need(right is not None, "its jvp raises an error, which another test reports")
    with torch.no_grad(), expect.no_error(f"tangents of {probe.label} under no_grad", "the same as without it"):
        actual = tangents(sample, direction)
    for place, (one, other) in enumerate(zip(actual, right or (), strict=True)):
        expect.close(one, other, f"tangent of output {place} of {probe.label} under no_grad")


@clause("Function.forward.inputs-untouched")
def test_jvp_leaves_arguments_alone(subject: Subject, world: World) -> None:
    """The arguments of a call hold the same values after jvp as before it."""
    for name, _, jvp in jvps(look_at_forward_mode(subject, world)):
        changed = f"inputs {', '.join(map(str, jvp.changed_inputs))} changed"
        expect.that(not jvp.changed_inputs, f"arguments after {name}", changed, "as forward left them")


@clause("Function.forward.no-tensor-on-ctx")
def test_jvp_leaves_no_tensor_on_ctx(subject: Subject, world: World) -> None:
    """After jvp no attribute of ctx is a tensor or holds one."""
    for name, call, _ in jvps(look_at_forward_mode(subject, world)):
        found = list(tensors_on(call.context, foreign=call.inputs))
        told = "; ".join(f"{way}: {expect.shown(tensor)}" for way, tensor in found)
        expect.that(not found, f"tensors kept on ctx after {name}", told, "none")


@clause("Function.forward.deterministic")
def test_jvp_seeds_no_generator(subject: Subject, world: World) -> None:
    """The random number generator goes on from the state in which it was found, in forward mode too."""
    looks = look_at_forward_mode(subject, world)
    compared = 0
    for sample in [look.sample for look in looks if any(call.jvps for call in look.witness.calls)]:
        states = world.try_call(lambda sample: [_states_after(sample, seed) for seed in (11, 12)], sample)
        if states is not None:
            compared += 1
            expect_not_seeded(states[0], states[1], f"jvp, {sample.label}")
    need(compared, "its calls reach no jvp")


def _states_after(sample: SampleCall, seed: int) -> dict[str, Any]:
    forward_mode_run(sample, seed)
    return seeds.states()
