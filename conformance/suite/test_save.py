"""What a Function saves, when, and whether that is all it needs."""

from __future__ import annotations

from functools import partial

import torch

from conformance.kit import Probe, Run, SampleCall, Subject, World, clause, expect, need, same_values
from conformance.kit.graph import contexts_behind
from conformance.kit.observation.ctx_tensors import arrays_on, tensors_on
from conformance.kit.observation.looks import expect_early, expect_once, looks_with, steps
from conformance.kit.observation.offload import offloaded

#: PyTorch's message for transforms of torch.func under saved-tensor hooks.
NO_HOOKS_IN_TRANSFORMS = "don't yet support saved tensor hooks"


@clause("Function.save_for_backward.once")
def test_save_for_backward_is_called_once(subject: Subject, world: World) -> None:
    """A call of forward calls save_for_backward at most once."""
    expect_once(looks_with("save_for_backward", subject, world), "save_for_backward")


@clause("Function.save_for_backward.where")
def test_save_for_backward_is_called_early(subject: Subject, world: World) -> None:
    """save_for_backward is called from forward or setup_context, not from backward, jvp or outside."""
    expect_early(looks_with("save_for_backward", subject, world), "save_for_backward")


@clause("Function.save_for_backward.only-tensors")
def test_only_tensors_are_saved(subject: Subject, world: World) -> None:
    """Every argument of save_for_backward is a tensor or None, whether or not a gradient is needed."""
    for name, _, step in steps(looks_with("save_for_backward", subject, world), "save_for_backward"):
        given = step.given if isinstance(step.given, tuple | list) else (step.given,)
        for index, value in enumerate(given):
            expect.that(
                value is None or isinstance(value, torch.Tensor),
                f"argument {index} of save_for_backward, {name}",
                f"{type(value).__name__} {expect.shown(value)}",
                "a tensor or None",
                "a non-tensor belongs on ctx as an attribute",
            )


@clause("Function.save_for_backward.hooks-suffice")
def test_hooks_can_carry_saved_tensors_away(probe: Probe) -> None:
    """With every saved tensor carried away by hooks and all else of the call overwritten, gradients are right."""
    how, likely = "with every saved tensor replaced by a copy", partial(_beside, probe)
    given, run = probe.cotangents, _under_hooks(probe.sample)
    with expect.no_error(f"gradients of {probe.label} {how}", "the gradients", lambda error: likely()):
        actual = run.gradients(given)
    probe.expect_gradients(actual, how, likely=likely)


def _under_hooks(sample: SampleCall) -> Run:
    """The call under hooks, all of it overwritten.

    Raises:
        NotApplicable: PyTorch refuses the call itself there.
    """
    try:
        return offloaded(sample)
    except RuntimeError as error:
        need(
            NO_HOOKS_IN_TRANSFORMS not in str(error),
            "forward calls torch.func, which raises an error under saved-tensor hooks",
        )
        raise


def _beside(probe: Probe) -> str:
    """Name the cause, if the hooks do no harm without anything overwritten."""
    if probe.world.size > 1:  # a call more on one rank would wait for the others
        return ""
    run = offloaded(probe.sample, overwriting=False)
    kept = _kept_on_ctx(run)  # backward may delete it
    try:
        actual = run.filled(run.gradients(probe.cotangents))
    except Exception:
        return ""
    if not all(map(same_values, actual, probe.gradients)):
        return ""
    return ": ".join(["backward reads a tensor that was stored without save_for_backward", *kept])


def _kept_on_ctx(run: Run) -> list[str]:
    """Name at most three things on ctx that are tensors, or that may hold their memory: functions and arrays."""
    contexts = contexts_behind(run.result)
    tensors = [way for context in contexts for way, _ in tensors_on(context)]
    functions = [f"ctx.{name}" for context in contexts for name, value in vars(context).items() if callable(value)]
    others = [*functions, *(way for context in contexts for way, _ in arrays_on(context))]
    return [", ".join((tensors or others)[:3])] if tensors or others else []


@clause("Function.save_for_forward.once")
def test_save_for_forward_is_called_once(subject: Subject, world: World) -> None:
    """A call of forward calls save_for_forward at most once."""
    expect_once(looks_with("save_for_forward", subject, world), "save_for_forward")


@clause("Function.save_for_forward.where")
def test_save_for_forward_is_called_early(subject: Subject, world: World) -> None:
    """save_for_forward is called from forward or setup_context, not from backward, jvp or outside."""
    expect_early(looks_with("save_for_forward", subject, world), "save_for_forward")
