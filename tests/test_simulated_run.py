"""Runs on simulated ranks: the controller's part, and what becomes of faults there."""

from __future__ import annotations

import pytest

from conformance.core.options import RunOptions
from conformance.core.plan import NOT_SIMULATED, SubjectRef
from conformance.ranks.pool import Pool
from conformance.ranks.settings import Settings
from conformance.ranks.simulated.group import SimulatedGroup, make_group
from conformance.run.session import Session
from tests.faults.running import HURRY, PATH, PATIENT, run


@pytest.fixture(scope="module")
def simulated(forkserver):
    """A pool whose ranks are simulated, and find the hostile subjects."""
    settings = Settings("simulated", timeout=PATIENT, path=PATH)
    with Pool(forkserver, settings, make_group) as pool:
        yield pool


def calm(pool, size=3):
    """Run a test that nothing is wrong with, among other faults."""
    outcome = run(pool, "Good", "test_calm", size)
    assert outcome.outcome == "pass", outcome.message
    return outcome


def test_all_ranks_of_a_world_are_one_process_that_serves_test_after_test(simulated):
    outcome = calm(simulated)
    assert [rank.rank for rank in outcome.ranks] == [0, 1, 2]
    (process,) = simulated.group.ranks
    calm(simulated)
    assert isinstance(simulated.group, SimulatedGroup)
    assert simulated.group.ranks[0] is process


@pytest.mark.parametrize(
    ("subject", "outcome", "said"),
    [
        ("backward_stays_out", "fail", "rank 2 called nothing more"),
        ("forward_stays_out", "error", "rank 2 called all_reduce([3x7 float32]) by SUM, gathers.py:"),
        ("forward_other_collective", "error", "what the ranks called does not fit together: rank 0 called all_gather"),
        ("forward_other_shape", "error", "rank 2 called all_reduce([10 float32])"),
        ("forward_other_dtype", "error", "does not fit together"),
        ("backward_lone_error", "error", "rank 2 of 3: RuntimeError: only here"),
        ("forward_system_exit", "error", "rank 2 of 3: SystemExit"),
        ("forward_keyboard_interrupt", "error", "rank 2 of 3: KeyboardInterrupt"),
        ("forward_segfault", "crash", "killed by SIGSEGV"),
        ("forward_exit_0", "crash", "the process exited with status 0"),
        ("forward_endless_loop", "timeout", "did not finish within"),
    ],
)
def test_a_fault_is_told_and_the_next_test_is_as_good_as_ever(simulated, subject, outcome, said):
    found = run(simulated, subject, "test_fault", 3, HURRY if subject == "forward_endless_loop" else None)
    assert found.outcome == outcome, found.message
    assert said in found.message
    assert [rank.rank for rank in found.ranks] == [0, 1, 2]
    calm(simulated)


def test_the_rank_that_stays_out_is_not_accused_by_those_that_wait_for_it(simulated):
    found = run(simulated, "backward_lone_error", "test_fault", 3)
    assert [(rank.outcome, rank.bystander) for rank in found.ranks] == [
        ("timeout", True),
        ("timeout", True),
        ("error", False),
    ]


def test_tests_of_compiled_collectives_are_left_out_there():
    subject = SubjectRef("tests.correct.collective:Copy", "Collective", None, "Copy", types="I -> R")
    with Session(RunOptions(backend="simulated", ranks=(1, 2)), subjects=[subject]) as session:
        compiling = [test for test in session.tests if test.test.compiles and test.subject]
    assert compiling
    assert {test.left_out for test in compiling if test.group} == {NOT_SIMULATED}
