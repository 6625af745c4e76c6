"""Faults of a subject on one rank: what the verdict is, what is said, and that no other test notices.

Each fault is a function of :mod:`tests.faults.hostile` or :mod:`tests.faults.changes`; it happens on the last rank.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.ranks import clock
from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Pool
from tests.faults.running import HURRY, new_pool, run, run_among_others, shared_pool, words

HANGS, DIES, RAISES, CHANGES = {"timeout"}, {"crash"}, {"error"}, {"pass"}
#: Fault: the verdicts that fit, and words that the report must have of the last rank or of what it changed.
FAULTS: dict[str, tuple[set[str], str]] = {
    "endless_loop": (HANGS, "endless_loop"),
    "long_sleep": (HANGS, "long_sleep"),
    "lock_held_in_c": (HANGS, "lock_held_in_c"),
    "stopped": (HANGS, "the process was stopped by a signal"),
    "stays_out": (HANGS | {"fail"}, ""),  # it goes on without the others, and gets a wrong gradient
    "exit_0": (DIES, "exited with status 0"),
    "exit_1": (DIES, "exited with status 1"),
    "segfault": (DIES, "killed by SIGSEGV"),
    "killed": (DIES, "killed by SIGKILL"),
    "abort": (DIES, "killed by SIGABRT"),
    "closes_everything": (DIES, ""),
    "writes_everywhere": (DIES, "something other than the suite wrote to the rank's connection"),
    "str_exits": (DIES, "exited with status 9"),
    "system_exit": (RAISES, "SystemExit: 0"),
    "keyboard_interrupt": (RAISES, "KeyboardInterrupt"),
    "patches_machinery": (RAISES, "TypeError: 'NoneType' object is not callable"),
    "forges_list": (DIES, "something other than the suite wrote to the rank's connection"),
    "forges_dict": (DIES, "something other than the suite wrote to the rank's connection"),
    "forges_bad_subject": (DIES, "something other than the suite wrote to the rank's connection"),
    "forges_types": (DIES, "something other than the suite wrote to the rank's connection"),
    "lone_error": (RAISES, "RuntimeError: only here"),
    "endless_recursion": (RAISES, "RecursionError"),
    "unpicklable": (RAISES, "Unpicklable: with a lock in it"),
    "str_raises": (RAISES, "whose __str__ raised ValueError"),
    "metaclass_raises": (RAISES, "WithoutName: but with a text"),
    "odd_message": (RAISES, "[bold]markup[/]"),
    "huge_message": (RAISES, "characters left out"),
    "memory_ends": ({"skip"}, "memory ran out"),
    "other_collective": ({"timeout", "error", "crash", "fail"}, ""),
    "other_shape": ({"timeout", "error", "crash", "fail"}, ""),
    "other_dtype": ({"timeout", "error", "crash", "fail"}, ""),
    "group_destroyed": (RAISES, ""),
    "group_replaced": (RAISES | {"fail", "timeout", "crash"}, ""),
    "prints_much": (CHANGES, ""),
    "closes_stdout": (CHANGES, "standard streams"),
    "replaces_stdout": (CHANGES, "standard streams"),
    "default_dtype": ({"fail"}, "default dtype"),
    "default_device": ({"fail", "pass"}, ""),  # autograd itself puts that right after backward
    "grad_mode": (CHANGES, ""),  # autograd itself puts that right
    "seed": (CHANGES, ""),  # every test begins with a seed
    "threads": (CHANGES, "number of threads"),
    "environment": (CHANGES, "environment variables"),
    "working_directory": (CHANGES, "working directory"),
    "signal_handlers": (CHANGES, "signal handlers"),
    "alarm": (CHANGES, "timers"),
    "thread_left": (CHANGES, "running threads"),
    "child_left": (CHANGES, "child processes"),
    "patches_torch": ({"error", "pass"}, "names of torch"),
    "function_mode": (CHANGES, ""),  # autograd itself puts that right after backward
    "dispatch_mode": (CHANGES | RAISES, ""),  # autograd itself puts that right after backward
    "functorch_level": (CHANGES | RAISES, ""),  # autograd itself puts that right after backward
    "dual_level": (CHANGES, "forward-mode level"),
    "autocast": (CHANGES, ""),  # autograd itself puts that right after backward
    "warning_filters": (CHANGES, "warning filters"),
    "saved_hooks": (CHANGES, ""),  # autograd itself puts that right after backward
    "matmul_precision": (CHANGES, "matmul precision"),
    "print_options": (CHANGES, "print options"),
    "deterministic": (CHANGES, "deterministic algorithms"),
    "modules_broken": (CHANGES | RAISES, "imported modules"),
    "watchdog": (CHANGES | DIES, ""),  # stopped before the next test; on a slow machine it bites in its own
    "extra_collective": ({"timeout", "error", "crash", "fail"}, ""),
    "logs_in_thread": (CHANGES, ""),
    "stops_parent": (CHANGES, ""),
    "limits_parent": (CHANGES, "limits of the forkserver"),
    "limits_parent_softly": (CHANGES, "limits of the forkserver"),
    "memory_grows": (CHANGES, ""),
    "forks_and_runs_on": (CHANGES, ""),
}


@pytest.fixture(scope="module")
def pool(forkserver: Forkserver) -> Iterator[Pool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "GRACE", 0.4)
        with shared_pool(forkserver) as pool:
            yield pool


# Where a fault happens decides what autograd puts right; the size of the world, how many ranks it must not spoil.
@pytest.mark.parametrize(("place", "size"), [("forward", 2), ("backward", 4)])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_its_verdict_and_spoils_nothing_else(pool: Pool, fault: str, place: str, size: int) -> None:
    outcome = run_among_others(pool, f"{place}_{fault}", size, *FAULTS[fault])
    if outcome.outcome != "pass":
        assert all(rank.outcome == "pass" or rank.message or rank.stack for rank in outcome.ranks)
        assert outcome.reproduce or outcome.outcome == "skip"


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("function_mode", "function and dispatch modes"),
        ("dispatch_mode", "function and dispatch modes"),
        ("functorch_level", "functorch levels"),
        ("autocast", "autocast"),
        ("saved_hooks", "saved-tensor hooks"),
    ],
)
def test_what_forward_leaves_switched_on_is_seen(pool: Pool, fault: str, name: str) -> None:
    outcome = run(pool, f"forward_{fault}", "test_fault", 2)
    assert name in outcome.ranks[-1].changed
    assert name not in outcome.ranks[0].changed
    assert run(pool, f"forward_{fault}", "test_later", 2).outcome == "pass"


def test_a_collective_that_one_rank_issues_alone_does_not_meet_the_next_test(pool: Pool) -> None:
    """It comes after the last one in common, so that every rank passes."""
    assert run(pool, "end_extra_collective", "test_fault", 2).outcome == "pass"
    later = run(pool, "end_extra_collective", "test_later", 2)
    assert later.outcome == "pass", words(later)


@pytest.mark.parametrize("place", ["forward", "backward"])
@pytest.mark.parametrize("fault", ["other_collective", "other_shape", "other_dtype", "stays_out", "segfault"])
def test_ranks_that_part_company_are_named_with_what_each_called(pool: Pool, fault: str, place: str) -> None:
    outcome = run(pool, f"{place}_{fault}", "test_fault", 3, HURRY)
    line = next(line for line in outcome.message.splitlines() if "the ranks' collectives differ at number" in line)
    assert all(f"rank {rank} called " in line for rank in range(3))


def test_collectives_that_do_not_match_get_a_second_look(pool: Pool) -> None:
    outcome = run(pool, "backward_other_shape", "test_fault", 3, HURRY)
    assert "with TORCH_DISTRIBUTED_DEBUG=DETAIL: RuntimeError: Detected mismatch" in words(outcome)


@pytest.mark.parametrize("fault", ["endless_loop", "lock_held_in_c"])
def test_the_rank_that_hangs_is_blamed_and_not_those_that_wait_for_it(pool: Pool, fault: str) -> None:
    outcome = run(pool, f"backward_{fault}", "test_fault", 4, 1.5)
    # The deadline follows what a call takes: 1.5 s at least.
    assert re.match(r"rank 3 of 4: did not finish within [\d.]+ s", outcome.message), outcome.message
    assert [rank.bystander for rank in outcome.ranks] == [True, True, True, False]
    assert all("all_reduce" in rank.stack for rank in outcome.ranks[:3])


def test_what_a_subject_leaves_running_ends_with_its_rank(pool: Pool, forkserver: Forkserver) -> None:
    assert run(pool, "backward_child_left", "test_fault", 2).outcome == "pass"
    assert run(pool, "Good", "test_calm", 2).outcome == "pass"
    limit = time.monotonic() + 600.0
    while sleeping := processes("sleep\0003601"):
        assert time.monotonic() < limit, sleeping
        time.sleep(0.02)


def processes(command: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().rstrip(b"\0").endswith(command.encode()):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_a_subject_may_kill_even_the_process_that_ranks_are_forked_from() -> None:
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        assert run(pool, "forward_kills_parent", "test_fault", 2).outcome == "crash"
        assert run(pool, "Good", "test_calm", 2).outcome == "pass"
        assert run(pool, "forward_kills_parent", "test_fault", 2).outcome == "crash"
        given_up = run(pool, "forward_kills_parent", "test_calm", 2)
        assert given_up.outcome == "skip"
        assert "kills the forkserver, from which ranks come" in given_up.reason
        assert run(pool, "Good", "test_calm", 2).outcome == "pass"


def test_a_subject_that_hangs_in_test_after_test_is_given_up(forkserver: Forkserver) -> None:
    with new_pool(forkserver, timeout=HURRY) as pool:
        outcomes = [run(pool, "forward_endless_loop", "test_fault", 2) for _ in range(5)]
        assert [outcome.outcome for outcome in outcomes] == ["timeout"] * 3 + ["skip"] * 2
        assert "raise --timeout" in outcomes[-1].reason
        pool.settings = new_pool(forkserver).settings
        assert run(pool, "Good", "test_calm", 2).outcome == "pass"


def test_memory_that_grows_costs_a_new_world_and_no_test(pool: Pool) -> None:
    outcomes = [run(pool, "forward_memory_jumps", "test_fault", 2) for _ in range(3)]
    assert [outcome.outcome for outcome in outcomes] == ["pass"] * 3
    assert any("memory" in rank.changed for outcome in outcomes for rank in outcome.ranks)
    assert run(pool, "forward_memory_jumps", "test_later", 2).outcome == "pass"
