"""Run tests of a subject in this process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch
from torch.utils import _pytree as pytree

from conformance.core.errors import UsageError
from conformance.core.joining import joined
from conformance.core.outcomes import BAD_SUBJECT, LEFT_BEHIND, RankOutcome, TestOutcome, judgements_from
from conformance.core.plan import PlannedTest
from conformance.core.signatures import parse
from conformance.core.worlds import seed_of
from conformance.kit.answers import CALLS, FUNCTIONS, forget
from conformance.kit.attempt import attempt, call_body
from conformance.kit.process.restoration import restored
from conformance.kit.seeds import generators_restored
from conformance.kit.spmd.claims import expect_fitting_types
from conformance.kit.subject import Subject
from conformance.kit.world import JUDGED, World
from conformance.ranks.second_look import due_to
from conformance.ranks.simulated.scheduler import Stuck
from conformance.ranks.simulated.simulation import Simulation

#: Why a test is not started.
TOO_LARGE = (
    "not run: after {} calls no more are made with a sample of its size; give a smaller one, which shows as much"
)


def in_process(
    tests: Sequence[PlannedTest], subject: Subject, device: str, calls: int | None = None
) -> Iterator[TestOutcome]:
    """Run tests with this process as the only rank, and restore its state.

    Args:
        tests: the tests.
        subject: what they are run on.
        device: where its samples are.
        calls: of a large sample, after how many calls no further test starts.
    """
    world = World(device=device)
    forget(subject.label)
    with _as_a_rank(torch.device(world.device).type, threads=torch.get_num_threads() if calls else 1):
        for test in tests:
            if calls and (made := CALLS[subject.label]) > calls:
                yield joined(test, [RankOutcome(0, "skip", TOO_LARGE.format(made))], 0.0)
            else:
                yield _outcome(test, subject, world)


def on_simulated_ranks(tests: Sequence[PlannedTest], subject: Subject, backend: str) -> Iterator[TestOutcome]:
    """Run tests on ranks that are threads of this process, and restore its state.

    Raises:
        UsageError: the subject cannot be tested as it stands.
    """
    there: dict[int, Simulation] = {}
    forget(subject.label)
    with ExitStack() as worlds, _as_a_rank("cpu"):
        for test in tests:
            if test.left_out or not test.group:
                yield _outcome(test, subject, World())
                continue
            if test.size not in there:
                there[test.size] = worlds.enter_context(Simulation(test.size, seed_of(backend)))
                _expect_usable(subject, there[test.size])
            yield _simulated_outcome(test, subject, there[test.size])


def _expect_usable(subject: Subject, simulation: Simulation) -> None:
    """Check that a subject has samples in a world, and returns as many tensors as its types name.

    Raises:
        UsageError: it has none, or returns more or fewer.
    """

    def looking(world: World) -> None:
        subject.samples(world)
        if subject.types and len(parse(subject.types).results) > 1:
            expect_fitting_types(subject, world)

    try:
        with restored():
            simulation.expect(looking)
    except UsageError:
        raise
    except (Exception, Stuck):
        return  # for the tests to judge


def device_of(subject: Subject) -> str:
    """Return the device of the samples if they share one, otherwise the CPU."""
    tensors = [leaf for sample in subject.samples(World()) for leaf in pytree.tree_leaves(sample.args)]
    devices = {str(tensor.device) for tensor in tensors if isinstance(tensor, torch.Tensor)}
    return devices.pop() if len(devices) == 1 else "cpu"


def megabytes(subject: Subject) -> int:
    """Return the size of the largest sample."""
    samples = [pytree.tree_leaves(sample.args) for sample in subject.samples(World())]
    sizes = [
        sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))
        for leaves in samples
    ]
    return max(sizes, default=0) // 10**6


def _outcome(test: PlannedTest, subject: Subject, world: World) -> TestOutcome:
    if test.left_out:
        return joined(test, [RankOutcome(rank, "not-applicable", test.left_out) for rank in range(test.size)], 0.0)

    def running() -> object:
        offered = {"subject": subject, "world": world, "in_a_copy": None, **dict(test.case)}
        return call_body(test.test.module, test.test.function, test.test.arguments, offered)

    with restored(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite provokes warnings; the caller's filters are meant for other code
        ended = attempt(running)
    outcome = "error" if ended.outcome == BAD_SUBJECT else ended.outcome
    judged = judgements_from(world.known.pop(JUDGED, []))
    names = FUNCTIONS.get(subject.label, ())
    told = RankOutcome(0, outcome, ended.message, ended.likely, judgements=judged, functions=names)
    return joined(test, [told], ended.seconds)


def _simulated_outcome(test: PlannedTest, subject: Subject, simulation: Simulation) -> TestOutcome:
    def running(world: World) -> object:
        offered = {"subject": subject, "world": world, "in_a_copy": None, **dict(test.case)}
        return call_body(test.test.module, test.test.function, test.test.arguments, offered)

    start = time.perf_counter()
    with restored(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = simulation.run(running)
        names = FUNCTIONS.get(subject.label, ())
        found = joined(test, [replace(one, functions=names) for one in told], time.perf_counter() - start)
        if found.asserted and simulation.is_left_behind:
            again = simulation.run(running, at_once=True)
            return due_to(LEFT_BEHIND, found) if {rank.outcome for rank in again} == {"pass"} else found
    return found


@contextmanager
def _as_a_rank(device: str, threads: int = 1) -> Iterator[None]:
    """Set the state that tests rely on, whatever the caller has set, and restore the generators that tests seed."""
    with ExitStack() as stack:
        stack.enter_context(generators_restored())
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        for kind in {"cpu", device}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        # For tensors this small threads mostly wait for each other: beside other work, ten times as long as one needs.
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(threads)
        yield
