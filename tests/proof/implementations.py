"""The planted bugs and correct implementations of the project: adding a class is all it takes to add one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conformance.prove.implementations import Implementation, read

TESTS = Path(__file__).parent.parent


def planted() -> list[Implementation]:
    """Every planted bug, in the order of files and lines."""
    return [found for found in _implementations("planted") if found.breaks]


def correct() -> list[Implementation]:
    """Every correct implementation."""
    return [found for found in _implementations("correct") if not found.breaks]


def of_the_contract() -> list[Implementation]:
    """Those of the contract alone that one process can show, right or wrong, without a change to PyTorch itself."""
    return [one for one in (*planted(), *correct()) if one.spec == "Function" and not one.engine]


def _implementations(folder: str) -> Iterator[Implementation]:
    for file in sorted((TESTS / folder).glob("[!_]*.py")):
        yield from read(file, f"tests.{folder}.{file.stem}", folder == "planted")
