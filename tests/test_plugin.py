"""The installed plugin in other people's pytest runs: until the suite is asked for, it is as good as absent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_conftest_may_use_any_option_name(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CLASHING)
    (tmp_path / "test_mine.py").write_text(TEST)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_options_are_there_once_the_suite_is_asked_for(tmp_path: Path) -> None:
    asked = ("--pyargs", "conformance.suite", "--subject", "spec_impl.torchlogix:GradFactor", "--spec", "GradFactor")
    done = run_pytest(tmp_path, *asked, "-k", "test_values_are_kept or GradFactor", "--ranks", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_workers_of_xdist_take_the_options(tmp_path: Path) -> None:
    asked = ("--pyargs", "conformance.suite", "--subject", "spec_impl.torchlogix:GradFactor", "--spec", "GradFactor")
    done = run_pytest(tmp_path, *asked, "-n", "2", "-k", "GradFactor", "--ranks", "1")
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
    done = run_pytest(tmp_path, *asked, *more, "-k", "test_state.py or test_calls.py")
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
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


CHECKING = """
from conformance import check

def test_half():
    check(Half, *inputs())
"""


def test_a_failing_check_shows_the_line_of_the_test_and_none_of_the_suite(tmp_path):
    (tmp_path / "test_half.py").write_text(module("Half", backward="return grad") + CHECKING)
    told = run_pytest(tmp_path, "test_half.py").stdout
    assert re.search(r"^> +check\(Half", told, re.MULTILINE), told
    assert "FAIL  Function.backward.gradient" in told
    assert "_raise_unless_good" not in told
