"""The installed plugin beside other plugins that users have: each gets along with ours, and so do all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import warm
from tests.modules import module

#: Where conf/requirements-plugins.txt is installed; nothing there is found by this project's own pytest runs.
PLUGINS = Path(sys.prefix, "plugins")
#: Each plugin by the name that pytest has for it, and arguments that have it do something, where there are any.
NEIGHBOURS: dict[str, tuple[str, ...]] = {
    "randomly": ("--randomly-seed=7",),
    "timeout": ("--timeout=300",),
    "rerunfailures": ("--reruns=1",),
    "pytest_cov": ("--cov=.", "--cov-report="),
    "asyncio": ("--asyncio-mode=auto",),
    "pytest_forked": (),  # loaded, no more: with --forked, 1.7.5 fails every test of pytest 9.2, ours or not
}
ALL = "all"
CONFTEST = """
def pytest_addoption(parser):
    for name in ("subject", "spec", "inputs", "ranks", "backend", "device"):
        parser.addoption(f"--{name}", default="mine")
"""
TESTS = """
from conformance import check

def test_my_option(request):
    assert request.config.getoption("--device") == "mine"

def test_my_function(conformance_check):
    conformance_check(Double, (torch.ones(2, dtype=torch.float64),), only="Function.backward.count")

def test_my_random_numbers():
    torch.manual_seed(3)
    first = torch.rand(2)
    check(Double, (torch.ones(2, dtype=torch.float64),), only="Function.backward.count")
    following = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.cat([first, following]), torch.rand(4))
"""
TRIPLE = """
class Triple(Double):
    @staticmethod
    def backward(ctx, grad):
        return grad * 3
"""
FEW = "mine and (test_gradient_is_the_derivative or test_one_value_for_each_input)"


def run_pytest(folder: Path, neighbour: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with one plugin beside ours, with all of them, or with none."""
    chosen = [name for name in NEIGHBOURS if neighbour in {name, ALL}]
    arguments = [word for name in chosen for word in NEIGHBOURS[name]]
    arguments += [word for name in NEIGHBOURS if name not in chosen for word in ("-p", f"no:{name}")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(PLUGINS)])}
    return warm.run("-m", "pytest", "-q", *arguments, *words, cwd=folder, env=environment)


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if not PLUGINS.is_dir():
        pytest.skip(f"pip install --no-deps --target {PLUGINS} -r conf/requirements-plugins.txt, as make does")


@pytest.mark.parametrize("neighbour", [*NEIGHBOURS, ALL])
def test_a_project_of_somebodys_own_runs_with_both(tmp_path: Path, neighbour: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_mine.py").write_text(module("Double") + TESTS)
    done = run_pytest(tmp_path, neighbour)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return outcomes(tmp_path_factory.mktemp("alone"), "nobody")


@pytest.mark.parametrize("neighbour", [*NEIGHBOURS, ALL])
def test_the_suite_gives_the_same_outcomes_with_both(tmp_path: Path, neighbour: str, alone: dict[str, str]) -> None:
    assert set(alone.values()) == {"pass", "failure"}
    assert outcomes(tmp_path, neighbour) == alone


def outcomes(folder: Path, neighbour: str) -> dict[str, str]:
    """What became of each test of the suite."""
    (folder / "mine.py").write_text(module("Double") + TRIPLE)
    words = ("--subject", "mine:Double", "--subject", "mine:Triple", "--inputs", "mine:inputs", "--ranks", "1")
    done = run_pytest(folder, neighbour, "--pyargs", "conformance.suite", *words, "-k", FEW, "--junitxml=told.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    cases = ElementTree.parse(folder / "told.xml").iter("testcase")
    return {f"{case.get('classname')} {case.get('name')}": next((part.tag for part in case), "pass") for case in cases}
