"""One ``check`` on ranks after another: torch is imported once, and nothing of one call is left in the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from conformance import check
from conformance.core.errors import UsageError
from conformance.ranks import procfs
from conformance.run import kept

ROOT = Path(__file__).parents[1]
X = torch.randn(3, dtype=torch.float64, requires_grad=True)


class Told(torch.autograd.Function):
    """Doubles, and leaves a line about the rank it runs on."""

    @staticmethod
    def forward(ctx, x):
        with open(os.environ["TOLD"], "a") as file:
            print(os.getppid(), os.getcwd(), os.environ.get("SAID", ""), file=file)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class KillsParent(Told):
    @staticmethod
    def forward(ctx, x):
        Told.forward(ctx, x)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)  # it ends with the process that it was forked from


class LeavesOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        child = subprocess.Popen(["sh", "-c", "setsid sleep 300 & echo $!"], stdout=subprocess.PIPE)
        with open(os.environ["TOLD"], "ab") as file:
            file.write(child.stdout.readline())
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def on_ranks(function: type[torch.autograd.Function] = Told) -> None:
    check(function, (X,), only="Function.backward.count", ranks=2)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a Function leaves its lines; no forkserver is left of tests before, and none for those that come."""
    kept._keep(None)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    yield tmp_path / "told"
    kept._keep(None)


def lines(told: Path) -> list[list[str]]:
    return [line.split(" ") for line in told.read_text().splitlines()]


def test_ranks_of_all_calls_are_forked_from_one_process(told: Path) -> None:
    on_ranks()
    on_ranks()
    assert len({parent for parent, *_ in lines(told)}) == 1


def test_it_serves_one_test_of_pytest_after_another(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which pytest names in a variable."""
    on_ranks()
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_more.py::test_next (call)")
    on_ranks()
    assert len({parent for parent, *_ in lines(told)}) == 1


@pytest.mark.parametrize("what", ["a variable", "a folder"])
def test_what_has_changed_since_the_last_call_is_what_ranks_see(
    told: Path, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_ranks()
    monkeypatch.setenv("SAID", "since") if what == "a variable" else monkeypatch.chdir(tmp_path)
    on_ranks()
    (_, folder, said), last = lines(told)[0], lines(told)[-1]
    assert last[1:] == ([folder, "since"] if what == "a variable" else [str(tmp_path), said])


def test_a_call_after_the_forkserver_was_killed_is_judged(told: Path) -> None:
    on_ranks()
    os.kill(int(lines(told)[0][0]), signal.SIGKILL)
    on_ranks()
    with pytest.raises(AssertionError, match="KillsParent"):
        on_ranks(KillsParent)
    on_ranks()


def test_nothing_that_a_subject_started_outlives_its_call(told: Path) -> None:
    on_ranks(LeavesOne)
    left = [int(pid) for (pid,) in lines(told)]
    assert left
    assert not [pid for pid in left if procfs.state(pid) not in {b"", b"Z"}]


def test_between_calls_this_process_adopts_no_orphans(told: Path) -> None:
    before = procfs.is_subreaper()
    on_ranks()
    assert procfs.is_subreaper() == before


def test_bad_usage_keeps_it(told: Path) -> None:
    on_ranks()
    with pytest.raises(UsageError), kept.kept_forkserver():
        raise UsageError("no such thing")
    on_ranks()
    assert len({parent for parent, *_ in lines(told)}) == 1


def test_an_interrupted_call_leaves_nothing_half_said(told: Path) -> None:
    on_ranks()
    with pytest.raises(KeyboardInterrupt), kept.kept_forkserver():
        raise KeyboardInterrupt
    on_ranks()
    assert len({parent for parent, *_ in lines(told)}) == 2


def test_calls_in_two_threads_do_not_share_one(told: Path) -> None:
    on_ranks()
    at_once = threading.Barrier(2)
    parents = []

    def use() -> None:
        with kept.kept_forkserver() as forkserver:
            at_once.wait(60)
            parents.append(forkserver.process.pid)
            at_once.wait(60)

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(parents)) == 2
    assert sum(procfs.state(pid) not in {b"", b"Z"} for pid in parents) == 1, "one is kept"


def test_a_forked_process_has_its_own(told: Path) -> None:
    """Both go on after the fork, and the ranks of neither end with the other."""
    script = """
        import os
        from tests.test_check_again import on_ranks
        on_ranks()
        child = os.fork()
        on_ranks()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            on_ranks()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=True, timeout=600)
    assert len({parent for parent, *_ in lines(told)}) == 2


def test_it_ends_with_the_process_that_called(told: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", "from tests.test_check_again import on_ranks; on_ranks()"], cwd=ROOT, check=True
    )
    limit = time.monotonic() + 60
    while procfs.state(int(lines(told)[0][0])) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not procfs.state(int(lines(told)[0][0]))


def test_another_thread_splits_its_kernels_as_the_call_does() -> None:
    """On several cores, a product in single precision that is split otherwise is rounded otherwise."""
    script = """
        from conformance import check
        from tests.correct.single_inside import MatmulInSingle, inputs
        check(MatmulInSingle, *inputs(), only="Function.backward.any-thread", strict=True)
    """
    cores = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=True, timeout=600, env=cores)
