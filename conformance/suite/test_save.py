"""What a Function saves, when, and whether that is all it needs."""

from __future__ import annotations

import torch

from conformance.kit import expect
from conformance.kit.calls import Case, Gradients, Run, differentiated, filled
from conformance.kit.deviations import Deviation, need
from conformance.kit.marks import clause
from conformance.kit.offload import offloaded
from conformance.kit.steps import at_most_once, only_early, steps
from conformance.kit.subject import Subject
from conformance.kit.watched import judged, watched
from conformance.kit.world import World


@clause("Function.save_for_backward.once")
def test_save_for_backward_is_called_once(subject: Subject, world: World) -> None:
    """A call of forward calls save_for_backward at most once."""
    at_most_once(watched(subject, world), "save_for_backward", "of two calls only the last one counts")


@clause("Function.save_for_backward.where")
def test_save_for_backward_is_called_early(subject: Subject, world: World) -> None:
    """save_for_backward is called from forward or setup_context, not from backward, jvp or outside."""
    only_early(watched(subject, world, everything=True), "save_for_backward")


@clause("Function.save_for_backward.only-tensors")
def test_only_tensors_are_saved(subject: Subject, world: World) -> None:
    """Every argument of save_for_backward is a tensor or None, whether or not a gradient is needed."""
    looks = watched(subject, world, everything=True)
    for look, call, step in steps(looks, "save_for_backward"):
        given = step.given if isinstance(step.given, tuple | list) else (step.given,)
        for index, value in enumerate(given):
            expect.that(
                value is None or isinstance(value, torch.Tensor),
                f"argument {index} of save_for_backward, {call.function.__name__}, {look.case.label}",
                f"{type(value).__name__} {expect.shown(value)}",
                "a tensor or None",
                "what is no tensor belongs on ctx as an attribute",
            )
    list(judged(looks))


@clause("Function.save_for_backward.hooks-suffice")
def test_hooks_can_carry_saved_tensors_away(subject: Subject, world: World) -> None:
    """With every saved tensor carried away by hooks and all else of the call overwritten, gradients are right."""
    found: list[tuple[Run, Gradients | Exception, Gradients]] = []
    for case, first in differentiated(subject, world):
        cotangents = first.cotangents(world)
        right = first.gradients(cotangents)
        found.append((first, _carried(case, cotangents), right))
    for run, actual, right in found:
        name = f"{run.case.label} with saved tensors carried away and back"
        if isinstance(actual, Exception):
            raise Deviation(
                f"gradients of {name}", f"{type(actual).__name__}: {actual}", "the gradients", BESIDE
            ) from actual
        for at, one, other in zip(run.leaves, filled(actual, run), filled(right, run), strict=True):
            if not _close(one, other):
                raise Deviation(
                    f"gradient of {run.case.names[at]} of {name}",
                    expect.shown(one),
                    expect.shown(other),
                    BESIDE,
                )


BESIDE = "backward reads a tensor that was kept beside save_for_backward"


def _carried(case: Case, cotangents: list[torch.Tensor]) -> Gradients | Exception:
    given = [cotangent.clone() for cotangent in cotangents]
    run = offloaded(case)
    try:
        return run.gradients(given)
    except Exception as error:
        return error


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    try:
        expect.close(one, other, "")
    except Deviation:
        return False
    return True


@clause("Function.save_for_forward.once")
def test_save_for_forward_is_called_once(subject: Subject, world: World) -> None:
    """A call of forward calls save_for_forward at most once."""
    looks = watched(subject, world, everything=True)
    need(any(steps(looks, "save_for_forward")), "save_for_forward is not called")
    at_most_once(looks, "save_for_forward", "of two calls only the last one counts")


@clause("Function.save_for_forward.where")
def test_save_for_forward_is_called_early(subject: Subject, world: World) -> None:
    """save_for_forward is called from forward or setup_context, not from backward, jvp or outside."""
    looks = watched(subject, world, everything=True)
    need(any(steps(looks, "save_for_forward")), "save_for_forward is not called")
    only_early(looks, "save_for_forward")
