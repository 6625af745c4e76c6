"""``.. on-devices::`` and ``.. gpus::``: what published classes break on an accelerator alone, and what ran on GPUs.

``python -m published --device`` and ``make gpu`` write the data.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import DOCS
from clause_pages.runs import Taken
from clause_pages.suite import BROKEN, Clause
from clause_pages.template import render

DATA, RESULTS = DOCS / "data", DOCS / "results"


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("on-devices", OnDevices)
    app.add_directive("gpus", Gpus)


@dataclass(frozen=True)
class Newcomer:
    """A clause that a published class breaks on a device and keeps on the CPU."""

    name: str
    clause: Clause
    message: str


@dataclass(frozen=True)
class Device:
    """The verdicts on the published classes on a type of device."""

    name: str
    classes: int
    musts: Sequence[Newcomer]
    lesser: Sequence[Newcomer]

    @property
    def breaking(self) -> int:
        """How many classes break a must there that they keep on the CPU."""
        return len({one.name for one in self.musts})


class OnDevices(SphinxDirective):
    """Called once: for each device, the classes that break there alone."""

    def run(self) -> list[nodes.Node]:
        """Make the tables."""
        registry = self.env.app.clause_record.registry  # type: ignore[attr-defined]
        found = [_device(path, registry) for path in _noted(self, DATA, "published-*.json")]
        return [render("on-devices.html", self.env.docname, devices=found)]


class Gpus(SphinxDirective):
    """Show what ran on GPUs, or that nothing ever did."""

    def run(self) -> list[nodes.Node]:
        """Make a sentence, or the tables."""
        reports = [json.loads(path.read_text("utf-8")) for path in _noted(self, RESULTS, "gpu-*.json")]
        gathers = [json.loads(path.read_text("utf-8")) for path in _noted(self, DATA, "bench-gathers-*.json")]
        faults = [json.loads(path.read_text("utf-8")) for path in _noted(self, DATA, "faults-*.json")]
        return [
            render(
                "gpus.html",
                self.env.docname,
                reports=[report for report in reports if report["environment"]["device"] != "cpu"],
                gathers=gathers,
                faults=faults,
                kept=_kept,
                counted=_counted,
                taken=Taken.of,
            )
        ]


def _noted(directive: SphinxDirective, folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    for path in found:
        directive.env.note_dependency(str(path))
    return found


def _device(path: Path, registry: Mapping[str, Clause]) -> Device:
    rows = json.loads(path.read_text("utf-8"))["subjects"]
    ran = [row for row in rows if row["verdict"] != "incomplete"]
    found = [
        (each["level"], Newcomer(_name(row), registry[each["clause"]], each["message"]))
        for row in ran
        for each in row["findings"]
        if each["clause"] in registry
    ]
    musts = [one for level, one in found if level == "must"]
    lesser = [one for level, one in found if level != "must"]
    return Device(path.stem.partition("-")[2], len(ran), musts, lesser)


def _name(row: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (row["package"], row["version"], row["subject"])))


def _kept(clauses: Sequence[Mapping[str, Any]]) -> str:
    asked = [clause for clause in clauses if clause["verdict"] == "pass" or clause["verdict"] in BROKEN]
    return f"{sum(clause['verdict'] == 'pass' for clause in asked)} of {len(asked)}"


def _counted(report: Mapping[str, Any]) -> Counter[str]:
    """How many clauses of all classes together have each verdict; those of level may change none of a class."""
    clauses = (clause for subject in report["subjects"] for clause in subject["clauses"] if clause["level"] != "may")
    verdicts = Counter(clause["verdict"] for clause in clauses)
    verdicts["broken"] = sum(verdicts.pop(word, 0) for word in BROKEN)
    return verdicts
