"""Results and gradients do not depend on the contents of new memory."""

from __future__ import annotations

import torch

from conformance.kit import Deviation, SampleCall, Subject, World, clause, every_sample, expect, need
from conformance.kit.backward import need_backward
from conformance.kit.unwritten import UNWRITTEN, reads_unwritten, results_and_gradients
from conformance.kit.variations.variants import JUDGED_BY_SPEC

#: Results and gradients of a call.
Made = tuple[list[torch.Tensor], list[torch.Tensor]]


@clause("Function.forward.deterministic")
def test_results_are_written_whole(subject: Subject, world: World) -> None:
    """Results are the same with NaN in new memory as with zeros."""
    for sample, (results, _), (right, _) in _both(subject, world):
        for index, (one, other) in enumerate(zip(results, right, strict=True)):
            _expect_no_trace(one, other, f"output {index} of {sample.label}")


@clause("Function.backward.gradient")
def test_gradients_are_written_whole(subject: Subject, world: World) -> None:
    """Gradients are the same with NaN in new memory as with zeros."""
    need(subject.gradient_kind != "spec", JUDGED_BY_SPEC)
    need_backward(subject)
    both = _both(subject, world)
    has_gradients = any(gradients for _, (_, gradients), _ in both)
    need(any(world.exchange(has_gradients)), "no sample has a result to differentiate")
    for sample, (results, gradients), (right, others) in both:
        if any(map(reads_unwritten, results, right)):
            continue  # saved results of this kind spoil the gradients, and forward is to blame
        for at, one, other in zip(sample.active, gradients, others, strict=False):
            _expect_no_trace(one, other, f"gradient of {sample.name(at)}")


def _both(subject: Subject, world: World) -> list[tuple[SampleCall, Made, Made]]:
    """Return every sample's call with NaN in new memory, and with zeros there."""
    found = []
    for sample in every_sample(subject, world):
        zeros = world.try_call(results_and_gradients, sample, world, 0.0)
        filled = world.try_call(results_and_gradients, sample, world, torch.nan) if zeros else None
        if zeros and filled and len(zeros[0]) == len(filled[0]):
            found.append((sample, filled, zeros))
    need(found, "no sample can be called while new memory is filled with NaN")
    return found


def _expect_no_trace(actual: torch.Tensor, right: torch.Tensor, what: str) -> None:
    if reads_unwritten(actual, right):
        one, other = expect.shown_apart(actual, right)
        raise Deviation(f"{what}, with NaN in new memory", one, other, UNWRITTEN)
