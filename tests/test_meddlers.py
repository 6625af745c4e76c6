"""Subjects that meddle with what few look at: what they did is named, and nobody else pays for it.

Each fault is a function of :mod:`tests.faults.meddlers`; it happens on the last rank.
"""

from __future__ import annotations

import os

import pytest

from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Pool
from tests.faults.running import new_pool, run, run_among_others

PASSES, RAISES, DIES, HANGS = {"pass"}, {"error"}, {"crash"}, {"timeout"}
LIBRARY, TORCH, SWITCHES = "names of Python's library", "names of torch", "switches of torch"
INTERPRETER = "interpreter settings"
OWN_CODE = "the suite's own code on this rank raised "
#: Fault: the outcomes that fit, and words that the report must have of the last rank or of what it changed.
FAULTS: dict[str, tuple[set[str], str]] = {
    "transforms_patched": (PASSES, TORCH),
    "forward_mode_patched": (PASSES, TORCH),
    "context_patched": (PASSES, TORCH),
    "metaclass_patched": (PASSES, TORCH),
    "checkpoint_patched": (PASSES, TORCH),
    "norm_patched": (PASSES, TORCH),
    "copy_and_math_patched": (PASSES, LIBRARY),
    "partial_patched": (PASSES | RAISES, ""),
    "suppress_patched": (RAISES, OWN_CODE),
    "backward_in_one_thread": (PASSES, ""),  # autograd itself puts that right after backward
    "view_replay": (PASSES, ""),  # autograd itself puts that right after backward
    "mkldnn_off": (PASSES, SWITCHES),
    "sparse_checks": (PASSES, SWITCHES),
    "warns_always": (PASSES, SWITCHES),
    "collector_keeps_all": (PASSES, INTERPRETER),
    "traces_other_threads": (PASSES, INTERPRETER),
    "faulthandler_off": (PASSES, INTERPRETER),
    "pipe_kills": (PASSES, "signal handlers"),
    "one_processor": (PASSES, "scheduling"),
    "one_processor_for_parent": (PASSES, "limits of the forkserver"),
    "low_priority_for_parent": (PASSES, "limits of the forkserver"),
    "another_user": (PASSES, "user"),
    "another_root": (PASSES | RAISES, "working directory"),
    "another_network": (PASSES, "namespaces"),
    "lock_replaced": (PASSES, LIBRARY),
    "thread_replaced": (PASSES, LIBRARY),
    "finder_first": (PASSES, "import path"),
    "folder_first": (PASSES, "import path"),
    "raw_thread": (PASSES, "running threads"),
    "connection_does_not_wait": (PASSES, ""),
    "stops_siblings": (HANGS, " s: the process was stopped by a signal"),
    "daemon_keeps_everything_open": (DIES, "rank {last} of {size}: the process exited with status 3"),
    "outlives_parent": (DIES, ""),
    "ends_parent": (DIES, ""),
    "connection_closed": (RAISES, OWN_CODE + "OSError: [Errno 9]"),
    "connection_to_nowhere": (RAISES, OWN_CODE + "OSError"),
    "connection_half_shut": (RAISES, OWN_CODE + "BrokenPipeError"),
    "output_does_not_wait": (PASSES, "standard streams"),
    "endless_line": (PASSES, ""),
    "files_of_the_suite_grow": (PASSES, ""),
    "no_traceback": (RAISES, "rank {last} of {size}: NoTraceback: but a text"),
    "answers_with_exit": (RAISES, "rank {last} of {size}: Everything: but a text"),
    "odd_text": (RAISES, "rank {last} of {size}: OddText: the odd text"),
    "source_exits": (RAISES, "rank {last} of {size}: RuntimeError: without source"),
    "lines_patched": (RAISES, "rank {last} of {size}: RuntimeError: and where?"),
    "several_at_once": (RAISES, "rank {last} of {size}: BaseExceptionGroup: several"),
}
#: What only root may do: other users' Functions get a PermissionError of their own.
OF_ROOT = {"another_user", "another_root", "another_network"}


@pytest.mark.parametrize(("place", "size"), [("forward", 2), ("backward", 4)])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_subject_meddles_with_is_named_and_no_other_test_notices(
    pool: Pool, fault: str, place: str, size: int
) -> None:
    fitting, said = FAULTS[fault]
    if fault in OF_ROOT and os.geteuid():
        fitting, said = RAISES, "PermissionError"
    run_among_others(pool, f"meddlers:{place}_{fault}", size, fitting, said)


@pytest.mark.parametrize("fault", ["backward_in_one_thread", "view_replay"])
def test_switches_that_forward_leaves_are_seen(pool: Pool, fault: str) -> None:
    outcome = run(pool, f"meddlers:forward_{fault}", "test_fault", 2)
    assert SWITCHES in outcome.ranks[-1].changed
    assert SWITCHES not in outcome.ranks[0].changed


def test_a_rank_that_no_longer_dies_with_its_parent_is_ended() -> None:
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        assert run(pool, "meddlers:forward_outlives_parent", "test_calm", 2).outcome == "pass"
        assert pool.group is not None
        ranks = [rank.pid for rank in pool.group.ranks]
        assert run(pool, "meddlers:forward_outlives_parent", "test_fault", 2).outcome == "crash"
        assert run(pool, "Good", "test_calm", 2).outcome == "pass"
        assert [pid for pid in ranks if os.path.exists(f"/proc/{pid}")] == []
