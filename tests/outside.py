"""A specification from outside, as if it had been installed: a folder that is on the path, with its metadata."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.core import clauses, homes
from conformance.core.homes import Home
from conformance.prove.implementations import Implementation, of_home

OPERATORS = Path(__file__).parents[1] / "specs" / "operator"
TEMPLATE = Path(homes.__file__).parents[1] / "template" / "gated_sum_spec"


def install(site: Path, spec: str = "GatedSum", package: str = "gated_sum_spec", distribution: str = "gated-sum-spec"):
    """Put a copy of the template into a folder; what it registers is the caller's."""
    site.mkdir(exist_ok=True)
    if not (site / TEMPLATE.name).exists():
        shutil.copytree(TEMPLATE, site / TEMPLATE.name)
    metadata(site, spec, package, distribution)
    return site / TEMPLATE.name


def metadata(site: Path, spec: str, package: str, distribution: str) -> None:
    """Register a specification in a folder of the path, as its installation would."""
    folder = site / f"{distribution.replace('-', '_')}-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1.0\n")
    (folder / "entry_points.txt").write_text(f"[{homes.GROUP}]\n{spec} = {package}\n")


@contextmanager
def operators(site: Path) -> Iterator[Home]:
    """The specification of operators, as if its distribution had been installed."""
    metadata(site, "Operator", "operator_spec", "autograd-conformance-operator")
    places = [str(site), str(OPERATORS)]
    sys.path[:0] = places
    yield homes.find("Operator")
    sys.path[:] = [place for place in sys.path if place not in places]
    clauses._registry.cache_clear()


def operators_to_prove() -> tuple[list[Implementation], list[Implementation]]:
    """Its planted bugs, and its correct operators."""
    home = Home("Operator", "operator_spec", OPERATORS / "operator_spec", "", "")
    return of_home(home, "planted"), of_home(home, "correct")
