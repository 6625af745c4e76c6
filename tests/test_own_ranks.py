"""Somebody's own tests on ranks: the mark ``ranks`` and the fixture ``world``, as pytest tells of them."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests import warm

TESTS = """
import bdb
import os
import time

import pytest
import torch
import torch.distributed as dist

PARENT = os.getpid()


@pytest.fixture
def doubled(request):
    return torch.arange(3.0) * 2


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("n", [1, 5])
def test_sum(world, n, tmp_path, monkeypatch, doubled):
    monkeypatch.setenv("ONLY_HERE", str(world.rank))
    x = torch.ones(n)
    dist.all_reduce(x)
    assert x.tolist() == [world.size] * n
    assert doubled.tolist() == [0.0, 2.0, 4.0]
    assert (os.environ["ONLY_HERE"], dist.get_rank()) == (str(world.rank), world.rank)
    (tmp_path / str(world.rank)).write_text("here")
    dist.barrier()
    assert len(list(tmp_path.iterdir())) == world.size


class TestOfAClass:
    @pytest.mark.ranks(2)
    def test_method(self, world):
        assert "ONLY_HERE" not in os.environ
        assert world.exchange(world.rank) == [0, 1]


@pytest.mark.ranks(2)
def test_wrong_on_one_rank(world):
    print("printed on rank", world.rank)
    x = torch.tensor(float(world.rank))
    dist.all_reduce(x)
    assert x.item() == 1 + world.rank


@pytest.mark.ranks(2)
def test_killed(world):
    if world.rank == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()


@pytest.mark.ranks(2)
def test_raises_alone(world):
    if world.rank == 1:
        raise ValueError("on this rank alone")
    dist.barrier()


@pytest.mark.ranks(2, timeout=1)
def test_hangs(world):
    while world.rank == 1:
        time.sleep(0.01)
    dist.barrier()


@pytest.mark.ranks(2)
def test_disagrees(world):
    if world.rank == 1:
        dist.broadcast(torch.zeros(3), 0)
    else:
        dist.barrier()


@pytest.mark.ranks(2)
def test_skipped(world):
    pytest.skip("not here")


@pytest.mark.ranks(2)
def test_skipped_on_one_rank_and_wrong_later_on_the_other(world):
    if world.rank == 1:
        pytest.skip("only rank 0")
    time.sleep(4)
    assert world.size == 3


@pytest.mark.ranks(2)
@pytest.mark.xfail(strict=True)
def test_expected(world):
    assert world.rank == 0


@pytest.mark.ranks(2)
def test_expected_inside(world):
    pytest.xfail("known")


@pytest.mark.ranks(2)
def test_after_all_of_them(world):
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == 2


@pytest.mark.ranks(2)
def test_with_what_cannot_be_sent(world, capsys):
    pass


@pytest.mark.ranks(2)
def test_breakpoint(world):
    breakpoint()


@pytest.mark.ranks(2)
def test_set_trace(world):
    raise bdb.BdbQuit  # as pdb.set_trace() does where nobody can type


@pytest.mark.ranks(2)
def test_exchanges_a_tensor(world):
    world.exchange(torch.ones(2))


@pytest.mark.ranks(2, simulated=True)
def test_simulated_exchange_of_a_tensor(world):
    world.exchange({"x": torch.ones(2)})


@pytest.mark.ranks(3, simulated=True)
def test_simulated(world, capsys):
    assert os.getpid() == PARENT
    x = torch.tensor(float(world.rank))
    dist.all_reduce(x)
    assert x.item() == 3


@pytest.mark.ranks(2, simulated=True)
def test_simulated_failure(world):
    dist.barrier()
    assert world.rank < 1


@pytest.mark.ranks(2, simulated=True)
def test_simulated_hang(world):
    if world.rank:
        dist.barrier()


@pytest.mark.ranks(2, simulated=True)
def test_simulated_skip(world):
    pytest.skip("nor here")


def test_without_a_mark(world):
    pass


def test_without_ranks():
    pass
"""
RESULTS = {
    "test_sum[ranks2-1]": "PASSED",
    "test_sum[ranks2-5]": "PASSED",
    "test_sum[ranks3-1]": "PASSED",
    "test_sum[ranks3-5]": "PASSED",
    "TestOfAClass::test_method[ranks2]": "PASSED",
    "test_wrong_on_one_rank[ranks2]": "FAILED",
    "test_killed[ranks2]": "FAILED",
    "test_raises_alone[ranks2]": "FAILED",
    "test_skipped_on_one_rank_and_wrong_later_on_the_other[ranks2]": "FAILED",
    "test_hangs[ranks2]": "FAILED",
    "test_disagrees[ranks2]": "FAILED",
    "test_expected[ranks2]": "XFAIL",
    "test_expected_inside[ranks2]": "XFAIL",
    "test_after_all_of_them[ranks2]": "PASSED",
    "test_with_what_cannot_be_sent[ranks2]": "FAILED",
    "test_breakpoint[ranks2]": "FAILED",
    "test_set_trace[ranks2]": "FAILED",
    "test_exchanges_a_tensor[ranks2]": "FAILED",
    "test_simulated_exchange_of_a_tensor[ranks2]": "FAILED",
    "test_simulated[ranks3]": "PASSED",
    "test_simulated_failure[ranks2]": "FAILED",
    "test_simulated_hang[ranks2]": "FAILED",
    "test_without_a_mark": "ERROR",
    "test_without_ranks": "PASSED",
}
EXCHANGED = r"TypeError: world\.exchange takes numbers, strings, lists, .* pass a tensor as x\.tolist\(\) \(.* Tensor"
NO_DEBUGGER = r"BdbQuit: a debugger needs .* ranks\(\.\.\., simulated=True\), or pass --pdb"
#: What stands under the headline of each failure.
SAID = {
    "test_wrong_on_one_rank[ranks2]": [r"rank 1 of 2: AssertionError: assert 1\.0 == \(1 \+ 1\)", "printed on rank 1"],
    "test_killed[ranks2]": ["crash: rank 1 of 2: killed by SIGKILL"],
    "test_raises_alone[ranks2]": ["error: rank 1 of 2: ValueError: on this rank alone"],
    "test_hangs[ranks2]": ["timeout: rank 1 of 2: did not finish within 1 s", "stack of rank 1:", "in test_hangs"],
    "test_disagrees[ranks2]": ["rank 0 called barrier", r"rank 1 called broadcast\(\[3 float32\]\)"],
    "test_with_what_cannot_be_sent[ranks2]": [r"cannot be sent to ranks; .* It is among capsys:"],
    "test_breakpoint[ranks2]": ["error on all 2 ranks; rank 0 of 2: " + NO_DEBUGGER],
    "test_set_trace[ranks2]": [NO_DEBUGGER],
    "test_exchanges_a_tensor[ranks2]": [EXCHANGED],
    "test_simulated_exchange_of_a_tensor[ranks2]": [EXCHANGED, "on all 2 ranks; this is rank 0"],
    "test_simulated_failure[ranks2]": [r">\s+assert world\.rank < 1", "on rank 1 of 2\n"],
    "test_simulated_hang[ranks2]": [
        r"rank 0 has returned; rank 1 waits in barrier\(.*\), test_mine\.py:\d+, in test_sim"
    ],
}


def run_pytest(folder: Path, *words: str, text: str = TESTS, commands: str = "") -> subprocess.CompletedProcess[str]:
    """Run pytest on a file of tests in a folder of its own."""
    (folder / "test_mine.py").write_text(textwrap.dedent(text), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    words = ("-rA", "--strict-markers", "-p", "no:cacheprovider", *words)
    return warm.run("-m", "pytest", *words, cwd=folder, env=environment, typed=commands)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What pytest said of all these tests."""
    return run_pytest(tmp_path_factory.mktemp("own")).stdout


def test_every_test_has_its_outcome_on_all_ranks(told):
    found = {name: word for word, name in re.findall(r"^([A-Z]+) test_mine\.py::(\S+)", told, re.MULTILINE)}
    assert found == RESULTS, told
    assert "not here" in told
    assert "nor here" in told


@pytest.mark.parametrize("test", SAID)
def test_a_failure_says_which_rank_and_what(told, test):
    title = test.replace("TestOfAClass::", "TestOfAClass.")
    text = re.search(rf"^_+ {re.escape(title)} _+\n(.*?)(?=^_+ \S+ _+$|^=)", told, re.MULTILINE | re.DOTALL)
    assert text, told
    for words in SAID[test]:
        assert re.search(words, text[1]), text[1]


def test_workers_and_selections_work_as_usual(tmp_path):
    done = run_pytest(tmp_path, "-n", "2", "-k", "test_sum or test_method")
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_the_first_failure_ends_a_run_that_is_to_end_there(tmp_path):
    done = run_pytest(tmp_path, "-x", "-k", "killed or after_all")
    assert "1 failed" in done.stdout
    assert "passed" not in done.stdout


def test_the_debugger_opens_where_a_rank_failed(tmp_path):
    commands = "p 'here', world.rank, x.item()\nq\n"
    done = run_pytest(tmp_path, "--pdb", "-k", "wrong_on_one", commands=commands)
    assert "('here', 1, 1.0)" in done.stdout, done.stdout + done.stderr


WARNINGS = """
import warnings

import pytest
import torch.distributed as dist


class Mine(UserWarning):
    pass


def warn(world):
    for _ in range(2):
        warnings.warn("on both", Mine)
    if world.rank:
        warnings.warn("on one", DeprecationWarning)
        warnings.warn("to be ignored")


@pytest.mark.filterwarnings("ignore:to be ignored")
@pytest.mark.ranks(2)
def test_real(world):
    warn(world)


@pytest.mark.filterwarnings("ignore::UserWarning:test_mine")
@pytest.mark.ranks(2, simulated=True)
def test_simulated(world):
    warn(world)


@pytest.mark.ranks(2)
def test_fails(world):
    warnings.warn("before it fails")
    assert world.rank > 1


@pytest.mark.filterwarnings("error")
@pytest.mark.ranks(2)
def test_refuses(world):
    warnings.warn("is an error")


@pytest.mark.filterwarnings("error")
@pytest.mark.ranks(2, simulated=True)
def test_expects(world):
    with pytest.warns(UserWarning, match=f"of rank {world.rank}"):
        dist.barrier()
        warnings.warn(f"of rank {world.rank}")
        dist.barrier()
"""


def test_what_ranks_warn_of_is_in_the_summary_once_with_the_ranks(tmp_path):
    said = run_pytest(tmp_path, text=WARNINGS).stdout
    summary = re.search(r"= warnings summary =+\n(.*?)-- Docs", said, re.DOTALL)[1]
    told = {
        re.search(r"test_mine.py:\d+: (.*)", block)[1]: re.findall(r"^test_mine.py::(\w+)", block, re.MULTILINE)
        for block in summary.strip().split("\n\n")
    }
    assert told == {
        "Mine: on both (on ranks 0, 1 of 2)": ["test_real"],
        "DeprecationWarning: on one (on rank 1 of 2)": ["test_real", "test_simulated"],
        "UserWarning: before it fails (on ranks 0, 1 of 2)": ["test_fails"],
    }, said
    assert "a filter makes an error of this warning: UserWarning: is an error (on ranks 0, 1 of 2)" in said
    assert "2 failed, 3 passed" in said
    assert "Traceback" not in said


#: What is said of a mark, or of a test with it, that cannot be.
MISUSED = [
    ("ranks()", "def test_it(world)", "takes world sizes, as in ranks(2, 4), not ()"),
    ("ranks(0)", "def test_it(world)", "takes world sizes, as in ranks(2, 4), not (0)"),
    ("ranks('2')", "def test_it(world)", "takes world sizes, as in ranks(2, 4), not ('2')"),
    ("ranks(2, backends='gloo')", "def test_it(world)", "knows no backends; it knows backend, device, timeout, simu"),
    ("ranks(2, timeout=-1)", "def test_it(world)", "takes timeout= in seconds, not -1"),
    ("ranks(2, simulated=True, timeout=3)", "def test_it(world)", "and ignores timeout="),
    ("ranks(2)", "def test_it()", "takes the fixture world itself, as in def test_x(world)"),
    ("ranks(2)", "def test_it(through)", "takes the fixture world itself, as in def test_x(world)"),
    ("ranks(2)", "async def test_it(world)", "an async def does not run on ranks"),
    ("ranks(2, device='cdua')", "def test_it(world)", "device 'cdua': PyTorch knows no such device; there are cpu"),
    ("ranks(2, backend='gloop')", "def test_it(world)", "backend 'gloop': torch.distributed knows no such backend"),
]


def test_a_mark_that_cannot_be_says_what_can(tmp_path):
    for number, (mark, signature, _) in enumerate(MISUSED):
        text = f"import pytest\n\n@pytest.fixture\ndef through(world): pass\n\n@pytest.mark.{mark}\n{signature}: pass\n"
        (tmp_path / f"test_misused_{number}.py").write_text(text, encoding="utf-8")
    said = run_pytest(tmp_path, "--continue-on-collection-errors", text="def test_fine(): pass\n").stdout
    assert [sentence for _, _, sentence in MISUSED if sentence not in said] == []
    assert "2 failed, 1 passed, 9 errors" in said, said
    assert "Traceback" not in said


def test_a_world_of_ones_own_is_left_alone(tmp_path):
    text = """
    import pytest

    @pytest.fixture
    def world():
        return "mine"

    @pytest.mark.ranks(2)
    def test_it(world):
        assert world == "mine"
    """
    assert "1 passed" in run_pytest(tmp_path, text=text).stdout


def test_the_file_that_the_guide_ports_passes(tmp_path):
    ported = Path(__file__).parents[1] / "benchmarks" / "peers" / "ported" / "test_after.py"
    done = warm.run("-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", str(ported), cwd=tmp_path)
    assert "20 passed" in done.stdout, done.stdout + done.stderr
