"""What ``--setup`` names is the user's own: where it fails one line says so, and nothing that is tested is to blame."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cli.commands import main
from tests.faults.command import run
from tests.modules import module
from tests.sharing import one_forkserver

SETUPS = """
def raises():
    raise RuntimeError("no licence")

def leaves():
    open("called", "w").close()

number = 3
"""
SUBJECTS = {"a subject": ("setups:Twice", "--inputs", "setups:inputs"), "the reference": ("--spec", "GradFactor")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("setups")
    (folder / "setups.py").write_text(SETUPS + module())
    with contextlib.chdir(folder), one_forkserver():
        yield folder


@pytest.mark.parametrize("about", SUBJECTS)
@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("setups:raises", "--setup setups:raises raised RuntimeError: no licence (setups.py:3, in raises)"),
        ("setups:number", "--setup setups:number: it is of type int, not a callable"),
        ("setups:none", "module 'setups' has no attribute 'none'"),
    ],
)
def test_a_setup_that_fails_is_bad_usage(
    folder: Path, capfd: pytest.CaptureFixture[str], about: str, reference: str, said: str
) -> None:
    with contextlib.chdir(folder):
        assert main(("run", *SUBJECTS[about], "--setup", reference)) == 4
    assert capfd.readouterr() == ("", f"conformance: {said}\n")


def test_a_setup_is_called_first(tmp_path: Path) -> None:
    (tmp_path / "setups.py").write_text(SETUPS + module())
    words = ("--setup", "setups:leaves", "-k", "test_one_value_for_each_input")
    assert run("run", *SUBJECTS["a subject"], *words, cwd=tmp_path)[2] == ""
    assert (tmp_path / "called").exists()
