"""Attacks on the runner, and odd places to start it from: every wait ends, and the other subjects are judged."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import conformance
from conformance.core.plan import SubjectRef
from conformance.ranks.client import Forkserver
from conformance.ranks.first_look import preflight
from conformance.ranks.group import RankGroup
from conformance.ranks.pool import Pool
from conformance.ranks.procfs import children, state
from tests.faults.command import FEW, ROOT, Running, reported, run, until
from tests.faults.running import SPEC, new_pool
from tests.faults.running import run as run_item
from tests.test_faults import processes

GATHER = ("--spec", SPEC, "--ranks", "2", "-k", FEW)


@pytest.fixture
def forkserver() -> Iterator[Forkserver]:
    with Forkserver() as forkserver:
        yield forkserver


@pytest.fixture
def pool(forkserver: Forkserver) -> Iterator[Pool]:
    with new_pool(forkserver) as pool:
        yield pool


def test_a_stopped_forkserver_is_replaced_and_accuses_nobody(pool: Pool, forkserver: Forkserver) -> None:
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
    os.kill(forkserver.process.pid, signal.SIGSTOP)
    assert run_item(pool, "forward_exit_1", "test_calm", 2).outcome == "pass"
    assert forkserver.restarts == 1


def test_a_rank_that_died_between_two_tests_is_replaced_and_accuses_nobody(pool: Pool, forkserver: Forkserver) -> None:
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
    assert pool.group is not None
    pid = pool.group.ranks[-1].pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: not state(pid))
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
    assert forkserver.restarts == 0


def test_what_a_rank_says_between_two_tests_accuses_nobody(pool: Pool) -> None:
    """Written by what the subject of the test before has left behind, for example."""
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
    assert pool.group is not None
    pool.group.ranks[-1]._protocol_error("not a valid message")
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"


def test_an_interrupt_at_the_forkserver_is_no_end_of_it(
    pool: Pool, forkserver: Forkserver, capfd: pytest.CaptureFixture[str]
) -> None:
    """A terminal's Ctrl-C does not reach it, in a session of its own; a subject's signal may."""
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
    os.kill(forkserver.process.pid, signal.SIGINT)
    assert run_item(pool, "forward_exit_1", "test_calm", 2).outcome == "pass"
    assert forkserver.restarts == 0
    assert capfd.readouterr().err == ""


def test_a_stopped_forkserver_dies_with_the_controller(tmp_path: Path) -> None:
    words = ("run", "slow:Slow", "--spec", SPEC, "--ranks", "2", "--report", "out", "-k", "ranks2")
    with Running(*words, cwd=tmp_path) as running:
        until(lambda: len(running.processes()) >= 4)  # controller, forkserver, two ranks
        (forkserver,) = children(running.process.pid)
        os.kill(forkserver, signal.SIGSTOP)
        running.send(signal.SIGKILL)
        running.end()
        assert not running.gone()


def test_what_a_subject_leaves_running_does_not_outlive_a_forkserver_that_it_killed() -> None:
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        outcome = run_item(pool, "forward_leaves_daemon_and_kills_parent", "test_fault", 2)
        assert outcome.outcome == "crash"
    assert not processes("sleep\0003602")


def test_what_a_subject_leaves_running_does_not_outlive_a_forkserver_that_it_stopped() -> None:
    """The forkserver is ended between two tests; what falls to the controller then is a subject's, not the user's."""
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        assert run_item(pool, "forward_leaves_daemon_and_stops_parent", "test_fault", 2).outcome == "pass"
        assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
        assert not processes("sleep\0003604")
        assert all(state(pid) != b"Z" for pid in children(os.getpid()))


def test_a_child_of_the_user_is_no_stray(pool: Pool) -> None:
    with subprocess.Popen(["sleep", "3603"], start_new_session=True) as own:
        assert run_item(pool, "forward_kills_parent", "test_fault", 2).outcome == "crash"
        assert own.poll() is None
        own.kill()


def test_limits_that_a_subject_set_on_the_controller_are_set_back(pool: Pool) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert run_item(pool, "Good", "test_calm", 1).outcome == "pass"
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    outcome = run_item(pool, "Good", "test_calm", 1)
    assert "limits of the controller" in outcome.ranks[0].changed
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_limits_of_the_controller_that_cannot_be_set_back_are_named_once(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = resource.prlimit

    def refused(pid: int, kind: int, *limits: tuple[int, int]) -> tuple[int, int]:
        if limits:
            raise PermissionError("not yours to set")
        return asked(pid, kind)

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert run_item(pool, "Good", "test_calm", 1).outcome == "pass"
    monkeypatch.setattr(resource, "prlimit", refused)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
        changed = [run_item(pool, "Good", "test_calm", 1).ranks[0].changed for _ in range(2)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert changed == [("limits of the controller",), ()]


def test_subjects_that_attack_when_they_are_imported_cost_no_other_subject(tmp_path: Path) -> None:
    words = ("kills_on_import:Gather", "forges_on_import:Gather", "hostile:Good")
    status, out, err = run("run", *words, *GATHER, "--report", "out", cwd=tmp_path)
    assert (status, err) == (1, ""), out
    outcomes = {word: {test["outcome"] for test in reported(tmp_path / "out" / "report.json", word)} for word in words}
    assert outcomes["hostile:Good"] == {"pass", "skip"}  # the rest was not selected
    assert all("crash" in outcomes[word] for word in words[:2])


def test_what_the_controller_cannot_do_is_an_error_of_that_test_alone(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RankGroup, "request", lambda *_: 1 / 0)
        outcome = run_item(pool, "Good", "test_calm", 2)
    assert outcome.outcome == "error"
    assert "the suite itself could not run this test: ZeroDivisionError" in outcome.message
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"


def one_test(subject: str, size: int, deadline: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.faults.one_test", subject, str(size), str(deadline)]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("subject", "word"), [("forward_second_sleep", "pass"), ("forward_long_sleep", "timeout")])
def test_time_in_which_the_controller_was_stopped_is_not_the_ranks(subject: str, word: str) -> None:
    with one_test(subject, 2, 2.0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)
        time.sleep(3.0)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read().startswith(word)


def test_no_size_of_a_sample_is_the_functions_fault() -> None:
    class Double(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return grad * 2

    sample = torch.ones(4 << 20, requires_grad=True)
    report = conformance.check(Double, (sample,), ranks=2, only="Function.backward.count")
    assert report.subjects[0].verdict != "fails"


class Triple(torch.autograd.Function):  # type: ignore[misc]
    """Its gradient is that of another function."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x * 2

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * 3


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a[b] (Function)", r"a\[b\] \(Function\)"),
        ("a\n::error title=b::c", r"a\\n::error title=b::c"),
        ("\x1b[31mred\0\x85\u2028", r"\\x1b\[31mred\\x00\\x85\\u2028"),
        ("half \ud800", r"half \\ud800"),
        ("F" * 4000, "F{98,100}…F{100}"),
    ],
)
def test_a_subject_is_named_in_one_line_whatever_it_is_called(name: str, shown: str) -> None:
    named = type("Named", (Triple,), {})
    named.__module__, named.__qualname__ = "m", name
    for subject in conformance.Subject(Triple, name=name), named:
        with pytest.raises(conformance.ConformanceError) as raised:
            conformance.check(subject, (torch.ones(2, dtype=torch.float64),), only="Function.backward.gradient")
        said = str(raised.value).splitlines()
        assert re.fullmatch(f"(m:)?{shown} fails", said[0])
        assert max(map(len, said)) < 500


def test_inputs_that_raise_send_no_control_characters_to_the_terminal(tmp_path: Path) -> None:
    _, out, err = run("run", "hostile:Good", "--inputs", "out_of_reach:inputs", cwd=tmp_path)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err)
    assert "red" in out + err


def test_a_forged_spec_is_refused(pool: Pool) -> None:
    outcome, said, *_ = preflight(pool, SubjectRef("forges_on_import:Gather", SPEC))
    assert outcome == "crash", said
    json.dumps(said)


def test_a_forkserver_that_is_traced_and_dies_is_said_to_have_died(pool: Pool, forkserver: Forkserver) -> None:
    """Whoever traces it is told of its end first, and its parent sees nothing of it before that one lets go."""
    assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
    with traced(forkserver.process.pid):
        forkserver.process.send_signal(signal.SIGKILL)
        until(lambda: state(forkserver.process.pid) == b"Z")
        outcome = run_item(pool, "forward_exit_1", "test_fault", 2)
        assert "kept running" not in outcome.message
        assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"


def test_a_forkserver_that_is_traced_when_it_is_closed_is_no_warning_in_the_next_test() -> None:
    """Where warnings are errors, pytest fails the test in which a process that nobody waited for is forgotten."""
    forkserver = Forkserver()
    forkserver.wait()
    pid = forkserver.process.pid
    with traced(pid):
        os.kill(pid, signal.SIGKILL)
        until(lambda: state(pid) == b"Z")
        forkserver.close()
        del forkserver
        gc.collect()


@contextlib.contextmanager
def traced(pid: int) -> Iterator[None]:
    """Another process traces this one, and waits for nothing that happens to it."""
    seize = (
        "import ctypes, sys, time\n"
        f"print(ctypes.CDLL(None, use_errno=True).ptrace(0x4206, {pid}, 0, 0), flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", seize], stdout=subprocess.PIPE, text=True) as tracer:
        try:
            assert tracer.stdout is not None
            if tracer.stdout.readline() != "0\n":
                pytest.skip("this user may trace no process; give the container CAP_SYS_PTRACE")
            yield
        finally:
            tracer.kill()
