"""The planted bugs and correct implementations of the project: adding a class is all it takes to add one."""

from __future__ import annotations

from pathlib import Path

from conformance.core.homes import ours
from conformance.prove.implementations import Implementation, of_home, read

TESTS = Path(__file__).parent.parent


def planted() -> list[Implementation]:
    """Every planted bug, in the order of files and lines: those of the house, then those beside a specification."""
    return _implementations("planted")


def correct() -> list[Implementation]:
    """Every correct implementation."""
    return _implementations("correct")


def of_the_contract() -> list[Implementation]:
    """Those of the contract alone that one process can show, right or wrong, without a change to PyTorch itself."""
    return [one for one in (*planted(), *correct()) if one.spec == "Function" and not one.engine]


def _implementations(kind: str) -> list[Implementation]:
    files, is_bug = sorted((TESTS / kind).glob("[!_]*.py")), kind == "planted"
    found = [one for file in files for one in read(file, f"tests.{kind}.{file.stem}", is_bug)]
    own = [one for home in ours().values() for one in of_home(home, kind)]
    return [*(one for one in found if bool(one.breaks) == is_bug), *own]
