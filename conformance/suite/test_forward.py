"""``forward`` as a guest: what it keeps, what it leaves behind, and whether one call knows of another."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit import SampleCall, Subject, World, clause, every_sample, expect, many, need, seeds, share_memory
from conformance.kit.calls import leaf_gradients
from conformance.kit.graph import contexts_behind
from conformance.kit.observation.ctx_tensors import tensors_on
from conformance.kit.observation.looks import look_at, named_calls
from conformance.kit.observation.memory import kept_alive
from conformance.kit.process import isolation
from conformance.kit.process.restoration import unusual_settings
from conformance.kit.recording import recording
from conformance.kit.sample_calls import copied_by_name
from conformance.kit.seeds import expect_not_seeded
from conformance.kit.variations.meaning import OF_LEAST_SQUARES
from conformance.kit.variations.words import mentioned_by

#: A pause in which work under way ends (s).
SETTLING = 1e-3


@clause("Function.forward.no-tensor-on-ctx")
def test_ctx_holds_no_tensor(subject: Subject, world: World) -> None:
    """After forward, and again after backward, no attribute of ctx is a tensor or holds one."""
    calls = named_calls(look_at(subject, world))
    need(calls, "no ctx of a Function class was found")
    for name, call in calls:
        found = call.kept or tuple(tensors_on(call.context, foreign=call.inputs))
        expect.that(
            not found,
            f"{name}: tensors stored on ctx without save_for_backward",
            "; ".join(f"{way}: {_whose(tensor, call.inputs, call.output)}" for way, tensor in found),
            "none; save them with ctx.save_for_backward",
        )


def _whose(tensor: torch.Tensor, inputs: tuple[object, ...], output: object) -> str:
    for kind, values in (("input", inputs), ("output", many(output))):
        for index, value in enumerate(values):
            if value is tensor:
                return f"{kind} {index}, {expect.shown(tensor)}"
    return expect.shown(tensor)


@clause("Function.forward.frees-memory")
def test_memory_is_freed_with_the_outputs(subject: Subject, world: World) -> None:
    """Once the outputs are gone, no tensor of the call is left, without garbage collection."""
    found = []
    for how in ("forward without a gradient", "forward", "forward and backward"):
        for sample in every_sample(subject, world):
            owners = [value for value in sample.values if not isinstance(value, torch.Tensor)]
            found.append((sample, how, kept_alive(partial(_once, sample, world, how), owners)))
    for sample, how, (left, why) in found:
        expect.that(
            not left,
            f"memory of {sample.label} after {how}, outputs deleted",
            f"still alive: {'; '.join(left)}",
            "nothing",
            (_kept_on_ctx(sample, world) or why) if left else "",
        )


def _kept_on_ctx(sample: SampleCall, world: World) -> str:
    """Name what the call itself put into a place that stays, if that can be seen."""
    if world.size > 1:  # a call more on one rank would wait for the others
        return ""
    ways = (_kept_by_setup_context, _kept_by_a_view, _kept_by_a_function)
    return next(filter(None, (way(sample) for way in ways)), "")


def _kept_by_setup_context(sample: SampleCall) -> str:
    """Say so if setup_context returns something, which stays alive for good."""
    if not sample.subject.defines("setup_context"):
        return ""
    recorded, notes = recording(sample.subject, "setup_context")
    replace(sample, subject=recorded).run()
    returns = any(noted.returned is not None for noted in notes.of("setup_context"))
    return "setup_context returns a value, which PyTorch keeps forever: return nothing" if returns else ""


def _kept_by_a_view(sample: SampleCall) -> str:
    """Say so if a view of an output was saved: PyTorch saves an output without its graph, but not a view of one."""
    run = sample.run()
    saved = [tensor for context in contexts_behind(run.result) for tensor in context.saved_tensors]
    views = [tensor for tensor in saved if tensor is not None and tensor._is_view()]
    is_kept = any(share_memory(view, output) for view in views for output in run.tensors)
    return "a view of an output was saved for backward, and keeps the output: save the output itself" if is_kept else ""


def _kept_by_a_function(sample: SampleCall) -> str:
    """Name a function on ctx that forward made: no collector looks into one for a result, which leads back to ctx."""
    run = sample.run()
    given = {id(value) for value in run.values}
    kept = [item for context in contexts_behind(run.result) for item in vars(context).items()]
    name = next((name for name, value in kept if getattr(value, "__closure__", None) and id(value) not in given), "")
    return name and f"ctx.{name} is a function that may hold a result, which leads back to ctx: return a detached one"


def _once(sample: SampleCall, world: World, how: str) -> None:
    run = sample.run(needed=() if how == "forward without a gradient" else None)
    made: list[Any] = [*run.tensors]
    if how == "forward and backward" and run.outputs:
        made += run.gradients(run.cotangents(world))
    if dist.is_initialized():  # a tensor that a collective still fills is kept alive until it is read
        _ = [tensor.clone() for tensor in made if tensor is not None]
        world.sleep(SETTLING)  # work that only backward waits for ends by itself; on a simulated rank, in a pause


@clause("Function.forward.deterministic")
def test_same_inputs_give_the_same(subject: Subject, world: World) -> None:
    """Two calls with equal inputs and equally seeded generators give equal outputs and gradients."""
    samples = every_sample(subject, world)
    pairs = [[copied_by_name(sample.run(), world) for _ in range(2)] for sample in samples]
    is_exact = OF_LEAST_SQUARES not in mentioned_by(subject.target).members
    for sample, (found, again) in zip(samples, pairs, strict=True):
        for (name, other), one in zip(found.items(), again.values(), strict=True):
            # On the CPU bit for bit; kernels of accelerators add up in the order of their threads.
            expect_same = expect.equal if other.device.type == "cpu" and is_exact else expect.close
            expect_same(one, other, f"{name} of {sample.label}, called again with equal inputs")


@clause("Function.forward.deterministic")
def test_global_state_is_left_as_found(subject: Subject, world: World) -> None:
    """A call changes no global setting, and reseeds no generator."""
    samples = every_sample(subject, world)
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    before = isolation.snapshot()
    try:
        states = [[_states_after(sample, world, seed) for sample in samples] for seed in (11, 12)]
        later = [[_states_after(sample, world, 11, seed) for sample in samples] for seed in (11, 12)]
        changed = isolation.changed_facts(before, isolation.snapshot())
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
    expect.that(not changed, "global state after calls", f"changed: {', '.join(changed)}", "as it was before")
    for sample, one, other in zip(samples, *states, strict=True):
        expect_not_seeded(one, other, sample.label)
    for sample, one, other in zip(samples, *later, strict=True):
        expect_not_seeded(one, other, f"backward of {sample.label}")


@clause("Function.forward.deterministic")
def test_unusual_settings_are_left_as_found(subject: Subject, world: World) -> None:
    """A call changes no global setting, even if settings are unusual."""
    need(world.size == 1, "checked on one rank only: a failing rank would leave the others waiting")
    samples = every_sample(subject, world)
    with unusual_settings():
        before = isolation.snapshot()
        ran = [world.try_call(lambda sample: copied_by_name(sample.run(), world), sample) for sample in samples]
        changed = isolation.changed_facts(before, isolation.snapshot())
    need(None not in ran, "it raises an error with another default dtype, anomaly mode or deterministic algorithms")
    expect.that(not changed, "unusual settings after calls", f"changed: {', '.join(changed)}", "as they were before")


def _states_after(sample: SampleCall, world: World, seed: int, seed_of_backward: int | None = None) -> dict[str, Any]:
    """Return the states of all generators after a seeded call, and after its backward if requested."""
    run = sample.run(seed=seed)
    after_forward = torch.get_rng_state()
    if run.outputs:
        cotangents = run.cotangents(world)
        torch.set_rng_state(after_forward)
        if seed_of_backward is not None:
            seeds.seed(seed_of_backward)
        with sample.subject.asking_for_its_group():
            leaf_gradients(run.outputs, list(run.leaves.values()), cotangents)
    return seeds.states() if run.outputs or seed_of_backward is None else {}
