"""Subjects that spoil what the suite itself stands on: no other test notices, and what was spoiled is named.

Each fault is a function of :mod:`tests.faults.vandals` or :mod:`tests.faults.processes`; it happens on the last rank.
"""

from __future__ import annotations

import pytest

from conformance.ranks.pool import Pool
from tests.faults.running import run_among_others

ANY = {"pass", "fail", "error", "crash"}
PASSES, RAISES, DIES, HANGS = {"pass"}, {"error"}, {"crash"}, {"timeout"}
LIBRARY, TORCH, SUITE = "names of Python's library", "names of torch", "names of the suite"
INTERPRETER = "interpreter settings"
#: Fault: the outcomes that fit, and words that the report must have of the last rank or of what it changed.
FAULTS: dict[str, tuple[set[str], str]] = {
    "builtins_replaced": (DIES | RAISES, ""),
    "builtins_deleted": (DIES | RAISES, ""),
    "open_raises": (PASSES, TORCH),
    "import_raises": (PASSES | RAISES, TORCH),
    "recursion_limit_low": (PASSES | RAISES, "recursion limit"),
    "settrace": (RAISES, "ZeroDivisionError"),
    "setprofile": (RAISES, "RuntimeError: profiled"),
    "excepthook": (PASSES, INTERPRETER),
    "audit_hook": (RAISES, "the suite's own code on this rank raised RuntimeError: audited"),
    "tracemalloc_on": (PASSES, INTERPRETER),
    "gc_callback": (PASSES, INTERPRETER),
    "switch_interval": (PASSES, INTERPRETER),
    "warnings_are_errors": (RAISES, "warning filters"),
    "json_patched": (PASSES, LIBRARY),
    "struct_patched": (ANY, ""),
    "traceback_patched": (RAISES, ""),
    "time_stands_still": (PASSES, LIBRARY),
    "sleep_returns_at_once": (PASSES, LIBRARY),
    "allclose_is_true": (PASSES, TORCH),
    "equal_raises": (RAISES, "nothing is equal"),
    "tensor_eq_patched": (PASSES, TORCH),
    "manual_seed_patched": (PASSES, TORCH),
    "testing_patched": (PASSES, TORCH),
    "backward_patched": (PASSES | {"fail"}, TORCH),
    "barrier_patched": ({"fail", "timeout"}, ""),
    "suite_patched": (PASSES, SUITE),
    "witness_of_state_patched": (RAISES, "the suite's own code on this rank raised"),
    "exits_in_thread": (DIES, "exited with status 6"),
    "raises_in_thread": (PASSES, ""),
    "threads_by_the_hundred": (PASSES, "running threads"),
    "thread_not_daemon": (PASSES, "running threads"),
    "alarm_now": (PASSES | DIES, ""),
    "fork_bomb": (PASSES, "child processes"),
    "double_fork_daemon": (PASSES, ""),
    "kills_its_group": (DIES, "killed by SIGTERM"),
    "kills_sibling": (DIES, "killed by SIGKILL"),
    "waits_for_children": (PASSES, "signal handlers"),
    "sigusr1_ignored_and_hangs": (HANGS, ""),
    "all_signals_blocked_and_hangs": (HANGS, ""),
    "nice": (PASSES, "scheduling"),
    "new_session": (PASSES, ""),
    "limit_of_files": (PASSES, "limits"),
    "limit_of_file_size": (PASSES, "limits"),
    "limit_of_processes": (PASSES, "limits"),
    "limit_of_cpu": (DIES | HANGS, ""),
    "limit_of_stack": (PASSES, "limits"),
    "atexit_hangs": (RAISES, "SystemExit: 0"),
    "raises_when_deleted": (PASSES, ""),
    "exits_in_collector": (DIES, "exited with status 8"),
    "closes_at_random": (ANY, ""),
    "descriptors_leak": (PASSES, "open files"),
    "descriptors_end": (PASSES | RAISES, "open files"),
    "huge_line_on_stderr": (PASSES, ""),
    "null_bytes_on_stdout": (PASSES, ""),
    "logs_to_closed_stream": (PASSES, ""),
    "stdout_is_a_full_pipe": (PASSES, "standard streams"),
    "working_directory_gone": (PASSES, "working directory"),
    "chroot_fails": (RAISES, "FileNotFoundError"),
    "temporary_folder_locked": (PASSES, "environment variables"),
    "locale_changed": (PASSES, "environment variables"),
    "default_dtype_half": ({"fail"}, "default dtype"),
    "inference_mode_entered": (PASSES | RAISES, ""),  # autograd itself puts that right
    "printoptions": (PASSES, ""),
    "flush_denormal": (PASSES, ""),  # of the thread: backward may have run in another one
    "interop_threads": (PASSES, ""),
    "sys_path_emptied": (PASSES | RAISES, "import path"),
    "modules_cleared": (PASSES | RAISES, "imported modules"),
}


@pytest.mark.parametrize(("place", "size"), [("forward", 2), ("backward", 4)])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_subject_spoils_is_named_and_no_other_test_notices(
    pool: Pool, fault: str, place: str, size: int
) -> None:
    run_among_others(pool, f"vandals:{place}_{fault}", size, *FAULTS[fault])
