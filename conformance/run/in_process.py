"""Run tests of a subject in this process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch.utils import _pytree as pytree

from conformance.core.joining import joined
from conformance.core.outcomes import BAD_SUBJECT, RankOutcome, TestOutcome, judgements_from
from conformance.core.plan import PlannedTest
from conformance.kit.attempt import attempt, call_body
from conformance.kit.process.restoration import restored
from conformance.kit.subject import Subject
from conformance.kit.world import JUDGED, World


def in_process(tests: Sequence[PlannedTest], subject: Subject, device: str) -> Iterator[TestOutcome]:
    """Run tests with this process as the only rank, and restore its state."""
    world = World(device=device)
    with _as_a_rank(torch.device(world.device).type):
        for test in tests:
            yield _outcome(test, subject, world)


def device_of(subject: Subject) -> str:
    """Where the samples are: on one device all of them, or else on the CPU."""
    tensors = [leaf for sample in subject.samples(World()) for leaf in pytree.tree_leaves(sample.args)]
    devices = {str(tensor.device) for tensor in tensors if isinstance(tensor, torch.Tensor)}
    return devices.pop() if len(devices) == 1 else "cpu"


def _outcome(test: PlannedTest, subject: Subject, world: World) -> TestOutcome:
    if test.left_out:
        return joined(test, [RankOutcome(0, "not-applicable", test.left_out)], 0.0)

    def running() -> object:
        offered = {"subject": subject, "world": world, **dict(test.case)}
        return call_body(test.test.module, test.test.function, test.test.arguments, offered)

    with restored(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite provokes warnings; the caller's filters are for the caller
        ended = attempt(running)
    outcome = "error" if ended.outcome == BAD_SUBJECT else ended.outcome
    judged = judgements_from(world.known.pop(JUDGED, []))
    return joined(test, [RankOutcome(0, outcome, ended.message, ended.likely, judgements=judged)], ended.seconds)


@contextmanager
def _as_a_rank(device: str) -> Iterator[None]:
    """The state that tests count on, whatever the caller has set."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        for kind in {"cpu", device}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield
