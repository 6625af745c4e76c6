"""A small library, installed for real, whose own tests use ``check`` and the fixture, and which ships its subjects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm

HERE = Path(__file__).parent
ROOT = HERE.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that the library was installed into, from a copy, so that nothing is built in the checkout."""
    folder = tmp_path_factory.mktemp("library")
    target, source = folder / "site", folder / "source"
    shutil.copytree(HERE / "library", source)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True, timeout=600)
    return target


def run(installed: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the library and this suite on its path, outside the checkout."""
    around = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    around |= {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", "COLUMNS": "120", "NO_COLOR": "1"}
    return warm.run(*words, cwd=cwd, env=around)


def test_the_librarys_own_tests_pass(installed, tmp_path):
    tests = shutil.copytree(HERE / "library" / "tests", tmp_path / "own")
    plugin = [] if _registered() else ["-p", "conformance.plugin"]
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}", "-W", "error", *plugin]
    done = run(installed, "-m", "pytest", str(tests), *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def _registered() -> bool:
    """Whether this suite is itself installed, so that pytest finds its plugin."""
    from importlib.metadata import entry_points

    return bool(entry_points(group="pytest11", name="conformance"))


def test_the_subjects_it_registers_are_found_and_conform(installed, tmp_path):
    done = run(
        installed, "-m", "conformance", "run", "--from", "gatherlib", "--ranks", "1,2", "-k", FEW, cwd=tmp_path
    )  # fmt: skip
    said = done.stdout + done.stderr
    for subject, spec in (("gather", "AllGatherGradAutograd"), ("scale", "Function")):
        assert f"({spec})" in said, said
        assert f"gatherlib.conformance:{subject}" in said or f"gatherlib:{subject.title()}" in said, said
    assert "broken clause" not in said, said


FEW = "test_gradient_is_the_sum_over_ranks or test_gradient_is_the_declared_one or test_one_value_for_each_input"


def test_another_package_registers_nothing(installed, tmp_path):
    done = run(installed, "-m", "conformance", "run", "--from", "torch", cwd=tmp_path)
    assert done.returncode == 4
    assert "these do: gatherlib" in done.stderr
