"""``conformance scan`` on defects that other people reported, rewritten small: how many it finds, what else it says.

A class with a ``# known:`` line above it has the defect that is named there; ``# also:`` names what else is wrong with
it. Classes without are right as far as a scan is concerned.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.scan import Finding, Found, scan

KNOWN = Path(__file__).parent / "data" / "scan" / "known"
PAGE = Path(__file__).parent.parent / "docs" / "guides" / "scan.md"
MARK = re.compile(r"# (known|also): (.+)")
#: What a scan should find of the known defects whose source shows them.
GOAL = 22 / 32
#: Wrong formulas and sizes: only doing the sum, or running the class, shows these.
SUMS = {
    "AddsTheSecondDerivative",
    "AssignsUnchecked",
    "InvertsWithoutWeights",
    "ReshapesTheEmpty",
    "RootOfZero",
    "SortsNothing",
    "SplitsTheLastDimension",
    "SwapsTheHalves",
}


@dataclass(frozen=True)
class Defect:
    """A class of the set: the clause that it is known to break, where that was reported, and what else it breaks."""

    name: str
    clause: str
    reported: str
    also: frozenset[str]


def defects(file: Path) -> list[Defect]:
    """The marked classes of one file."""
    lines = file.read_text().splitlines()
    found = []
    for node in ast.parse(file.read_text()).body:
        marks: dict[str, str] = {}
        line = node.lineno - 2
        while isinstance(node, ast.ClassDef) and (match := MARK.fullmatch(lines[line])):
            marks[match[1]] = match[2]
            line -= 1
        if marks and isinstance(node, ast.ClassDef):
            clause, _, reported = marks["known"].partition(" ")
            found.append(Defect(node.name, clause, reported, frozenset(marks.get("also", "").split())))
    return found


DEFECTS = [defect for file in sorted(KNOWN.glob("*.py")) for defect in defects(file)]
FOUND: dict[str, Found] = {found.name: found for found in scan(str(KNOWN)).found}
RIGHT = sorted(FOUND.keys() - {defect.name for defect in DEFECTS})


def findings(defect: Defect) -> list[Finding]:
    """The findings that name the known defect."""
    return [finding for finding in FOUND[defect.name].findings if finding.clause == defect.clause]


def test_the_set_holds_at_least_32_defects_each_with_its_source():
    assert len(DEFECTS) >= 32
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)
    assert all(defect.reported.startswith(("https://github.com/", "docs/")) for defect in DEFECTS)


def test_at_least_22_of_32_defects_that_the_source_shows_are_found():
    shown = [defect for defect in DEFECTS if defect.name not in SUMS]
    found = [defect for defect in shown if findings(defect)]
    assert len(shown) >= 32
    assert len(found) / len(shown) >= GOAL, sorted(defect.name for defect in shown if not findings(defect))


def test_at_least_22_defects_are_found_for_certain_or_likely():
    sure = [defect for defect in DEFECTS if any(finding.confidence != "possible" for finding in findings(defect))]
    assert len(sure) >= 22


def test_defects_that_only_a_sum_shows_are_in_the_set():
    assert {defect.name for defect in DEFECTS} >= SUMS


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_nothing_but_the_true_is_said_of_a_known_defect(defect):
    said = {finding.clause for finding in FOUND[defect.name].findings if finding.confidence != "possible"}
    assert said <= {defect.clause} | defect.also


@pytest.mark.parametrize("name", RIGHT)
def test_correct_neighbours_are_not_accused(name):
    assert FOUND[name].findings == ()


def test_the_page_on_precision_says_how_many_are_found():
    shown = [defect for defect in DEFECTS if defect.name not in SUMS]
    found = [defect for defect in DEFECTS if findings(defect)]
    sure = [defect for defect in DEFECTS if any(finding.confidence != "possible" for finding in findings(defect))]
    text = " ".join(PAGE.read_text().split())
    assert f"{len(found)} of {len(DEFECTS)} known defects are found, {len(sure)} of them certain or likely" in text
    assert f"{sum(defect in shown for defect in found)} of {len(shown)}" in text


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_the_page_on_precision_lists_every_defect(defect):
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and f"`{defect.name}`" in line]
    words = {finding.confidence for finding in findings(defect)}
    assert line.rstrip().endswith(f"| {' and '.join(sorted(words)) or 'no'} |")
