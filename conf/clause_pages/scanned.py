"""``.. scanned::``: which findings of ``conformance scan`` were true, by rule, and the figures that prose names.

``docs/data/scan-sample.json`` has the findings, each with what its reader said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import record_of
from clause_pages.template import render

#: The sets of packages, in the order in which they were fetched.
SETS = ("seen", "held out", "later")


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("scanned", Scanned)


@dataclass(frozen=True)
class Rule:
    """One rule at one level of certainty: the judgements on its findings in each set; empty if there were none."""

    clause: str
    sure: str
    said: Sequence[str]


class Scanned(SphinxDirective):
    """Called once: a row for each rule."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        rules = list(_rules(record_of(self, reports=False).scanned.get("sample", ())))
        return [render("scanned.html", self.env.docname, sets=SETS, rules=rules)]


def _rules(findings: Sequence[Mapping[str, str]]) -> Iterator[Rule]:
    for clause, sure in sorted({(finding["clause"], finding["confidence"]) for finding in findings}):
        of_rule = [one for one in findings if (one["clause"], one["confidence"]) == (clause, sure)]
        yield Rule(clause, sure, [_said([one for one in of_rule if one["set"] == group]) for group in SETS])


def _said(findings: Sequence[Mapping[str, str]]) -> str:
    verdicts = Counter(finding["verdict"] for finding in findings)
    meant = f", {verdicts['meant']} meant" if verdicts["meant"] else ""
    return f"{verdicts['true']} of {len(findings)} true{meant}" if findings else ""


def scan_figures(scanned: Mapping[str, Any]) -> dict[str, int]:
    """The figures of the page on how far to trust the scan."""
    packages = scanned.get("packages", {})
    sure = [finding for finding in scanned.get("sample", ()) if finding["confidence"] != "possible"]
    later = [finding for finding in sure if finding["set"] == "later"]
    in_set = Counter(package["set"] for package in packages.values())
    most = Counter(finding["package"] for finding in sure).most_common(1)
    return {
        "scan-packages": len(packages),
        "scan-functions": sum(package["functions"] for package in packages.values()),
        "scan-files": sum(package["files"] for package in packages.values()),
        **{f"scan-{name.replace(' ', '-')}": in_set[name] for name in SETS},
        "scan-sure": len(sure),
        "scan-sure-true": sum(finding["verdict"] == "true" for finding in sure),
        "scan-sure-later": len(later),
        "scan-sure-later-true": sum(finding["verdict"] == "true" for finding in later),
        "scan-most-of-one-package": most[0][1] if most else 0,
    }
