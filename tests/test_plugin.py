"""The installed plugin in other people's pytest runs: until the suite is asked for, it is as good as absent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.modules import module

CLASHING = """
import pytest

def pytest_addoption(parser):
    for name in ("subject", "spec", "inputs", "ranks", "backend", "device", "rank-timeout", "rank-setup", "no-compile"):
        parser.addoption(f"--{name}", default="mine")
"""
NOTHING_HEAVY = """
import sys

def test_start():
    assert not {"torch", "rich", "conformance.run.session"} & set(sys.modules)
"""
PRINTS = module("Prints", forward='print("called")\nreturn x * 2')
TEST = """
def test_it_is_my_option(request):
    assert request.config.getoption("--device") == "mine"
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Where one of these is set, pytest repeats the whole text of a failure in its summary.
    around = {name: value for name, value in os.environ.items() if name not in {"CI", "BUILD_NUMBER"}}
    return warm.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, cwd=folder, env=around)


def test_a_conftest_may_use_any_option_name(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CLASHING)
    (tmp_path / "test_mine.py").write_text(TEST)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_options_are_there_once_the_suite_is_asked_for(tmp_path: Path) -> None:
    asked = ("--pyargs", "conformance.suite", "--subject", "spec_impl.torchlogix:GradFactor", "--spec", "GradFactor")
    done = run_pytest(tmp_path, *asked, "-k", "GradFactor and test_values_are_kept", "--ranks", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_workers_of_xdist_take_the_options(tmp_path: Path) -> None:
    asked = ("--pyargs", "conformance.suite", "--subject", "spec_impl.torchlogix:GradFactor", "--spec", "GradFactor")
    done = run_pytest(tmp_path, *asked, "-n", "2", "-k", "GradFactor and test_values_are_kept", "--ranks", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


#: Two subjects, each on ranks of its own; these note the policy of their process, and what they find imported.
NOTES = """
import os, sys, torch
from conformance import Subject

MODULES = ["conformance.suite.test_state", "conformance.suite.test_calls"]

class Copy(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x.clone())
    backward = staticmethod(lambda ctx, g: g)

def inputs():
    with open("noted", "a") as file:
        print([name for name in MODULES if name in sys.modules], os.sched_getscheduler(0), file=file)
    yield (torch.ones(2, dtype=torch.float64, requires_grad=True),)

first, second = Subject(Copy, inputs=inputs), Subject(Copy, inputs=inputs)
"""


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux alone has this policy: run it on Linux")
@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["alone", "with workers"])
def test_ranks_find_the_suite_imported_and_wait_in_line(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "notes.py").write_text(NOTES)
    asked = ("--pyargs", "conformance.suite", "--subject", "notes:first", "--subject", "notes:second", "--ranks", "1")
    done = run_pytest(tmp_path, *asked, *more, "-k", "test_attributes_of_arguments or test_a_gradient_survives")
    assert done.returncode == 0, done.stdout + done.stderr
    last = (tmp_path / "noted").read_text().splitlines()[-1]
    assert last == f"['conformance.suite.test_state', 'conformance.suite.test_calls'] {os.SCHED_BATCH}"


def test_what_is_only_told_of_a_subject_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(PRINTS)
    asked = ("--pyargs", "conformance.suite", "--subject", "prints:Prints", "--inputs", "prints:inputs")
    done = run_pytest(tmp_path, *asked, "-k", "it_is_captured_whole", "--ranks", "1", "-rx")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 xfailed" in done.stdout
    assert "the compiler gives up at prints.py:7" in done.stdout


@pytest.mark.parametrize(("option", "value"), [("--ranks", "x"), ("--spec", "Nosuch"), ("--rank-timeout", "-1")])
def test_an_option_that_cannot_be_used_is_one_line(tmp_path: Path, option: str, value: str) -> None:
    done = run_pytest(tmp_path, "--pyargs", "conformance.suite", option, value)
    assert done.returncode == 4
    assert "Traceback" not in done.stdout + done.stderr
    assert value in done.stdout + done.stderr


def test_nothing_of_the_suite_is_imported_in_a_run_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(NOTHING_HEAVY)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout


CHECKING = """
from conformance import check

def test_half():
    check(Half, *inputs(), only="Function.backward.gradient")
"""


def test_a_failing_check_shows_the_line_of_the_test_and_none_of_the_suite(tmp_path):
    (tmp_path / "test_half.py").write_text(module("Half", backward="return grad") + CHECKING)
    told = run_pytest(tmp_path, "test_half.py").stdout
    assert re.search(r"^> +check\(Half", told, re.MULTILINE), told
    assert "FAIL  Function.backward.gradient" in told
    assert "_raise_unless_good" not in told


FOLLOWS = """
import torch

class Short(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad

def inputs():
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    yield x, x.detach().clone().requires_grad_()
    yield x.detach(), x.detach().clone().requires_grad_()
"""
HALVES = """
import torch
import torch.distributed as dist
from spec_impl.ksuit import AllGatherGradAutograd

class Half(AllGatherGradAutograd):
    @staticmethod
    def backward(ctx, *grads):
        return AllGatherGradAutograd.backward(ctx, *grads) / dist.get_world_size()
"""
FEW = "test_one_value_for_each or test_same_inputs_give or test_gradient_is_the_derivative or test_zeros_give_zeros"


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_failures_that_follow_from_another_say_so_in_a_line(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "follows.py").write_text(FOLLOWS)
    asked = ("--pyargs", "conformance.suite", "--subject", "follows:Short", "--inputs", "follows:inputs")
    done = run_pytest(tmp_path, *asked, *more, "-k", f"follows and ({FEW})", "--ranks", "1", "--no-compile")
    told = done.stdout
    assert "4 failed" in told, "every failure is counted"
    assert told.count("\nreproduce: ") == 1, told
    assert "\nfail: Short.backward, sample 0: number of values returned\n" in told
    line = "\nconsequence of Function.backward.count: Function.backward.gradient (must) was not judged\n"
    assert told.count(line) == 1, told
    assert told.count("\nconsequence of Function.backward.count: ") == 3
    summary = told.partition(" short test summary info ")[2]
    assert "follows:Short: 1 cause, 3 consequences" in summary, told
    assert "Function.backward.count (must): test_one_value_for_each_input[follows:Short-ranks1]" in summary


def test_failures_without_a_common_cause_are_each_told_in_full(tmp_path: Path) -> None:
    words = FOLLOWS.replace("return grad\n", "return 2 * grad, 3 * grad + 1\n")
    (tmp_path / "follows.py").write_text(words)
    asked = ("--pyargs", "conformance.suite", "--subject", "follows:Short", "--inputs", "follows:inputs")
    done = run_pytest(tmp_path, *asked, "-k", f"follows and ({FEW})", "--ranks", "1", "--no-compile")
    failed = int(re.findall(r"(\d+) failed", done.stdout)[-1])
    assert failed > 1
    assert done.stdout.count("\nreproduce: ") == failed
    assert done.stdout.count("looks like: the right value times 2\n") == 1, done.stdout
    assert "consequence of" not in done.stdout


def test_a_subject_that_cannot_be_called_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "follows.py").write_text(FOLLOWS.replace("return x + y", 'raise ValueError("not today")'))
    asked = ("--pyargs", "conformance.suite", "--subject", "follows:Short", "--inputs", "follows:inputs")
    done = run_pytest(tmp_path, *asked, "-k", f"follows and ({FEW})", "--ranks", "1", "--no-compile")
    assert done.stdout.count("not today") == 2, "the exception, and the line that raises it"
    assert "follows:Short: cannot be called with its samples, so nothing could be judged" in done.stdout


def test_one_failure_in_several_worlds_is_told_in_full_once(tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text(HALVES)
    asked = ("--pyargs", "conformance.suite", "--subject", "halves:Half", "--spec", "AllGatherGradAutograd")
    done = run_pytest(tmp_path, *asked, "-k", "halves and test_gradient_is_the_sum_over_ranks", "--ranks", "2,3")
    assert "6 failed" in done.stdout, "two worlds, three dtypes"
    assert done.stdout.count("\nreproduce: ") == 1, done.stdout
    assert done.stdout.count("\nas in test_gradient_is_the_sum_over_ranks[halves:Half-ranks2-float64]: ") == 5
