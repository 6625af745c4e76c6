"""``.. proof::``, ``.. kill-matrix::``, ``.. survivors::``: what the proof found, every bug and mutant by name."""

from __future__ import annotations

from collections import defaultdict

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.figures import figures
from clause_pages.record import ROOT, Bug, record_of
from clause_pages.sources import lines_of
from clause_pages.template import render


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("proof", Figures)
    app.add_directive("kill-matrix", KillMatrix)
    app.add_directive("survivors", Survivors)


class Figures(SphinxDirective):
    """Called once: the proof in a handful of numbers."""

    def run(self) -> list[nodes.Node]:
        """Make the list."""
        return [render("proof.html", self.env.docname, figures=figures(record_of(self, reports=False)))]


class KillMatrix(SphinxDirective):
    """Called once: every clause, whose row opens to the bugs that break it."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        record = record_of(self, reports=False)
        bugs: dict[str, list[tuple[Bug, str]]] = {clause.id: [] for clause in record.clauses}
        for bug in record.bugs:
            bugs.setdefault(bug.breaks, []).append((bug, _source(bug)))
        groups = [(record.registry.get(name), name, found) for name, found in bugs.items() if found]
        return [render("kill-matrix.html", self.env.docname, groups=groups, clauses=record.clauses)]


class Survivors(SphinxDirective):
    """Called once: the mutants that no test notices, by the reason why none can."""

    def run(self) -> list[nodes.Node]:
        """Make the list."""
        reasons: dict[str, list[str]] = defaultdict(list)
        for survivor in record_of(self, reports=False).mutants.get("survivors", ()):
            reasons[survivor["why"]].append(survivor["mutant"])
        return [render("survivors.html", self.env.docname, reasons=reasons)]


def _source(bug: Bug) -> str:
    """The page with its source, or nothing if the file is gone."""
    module, _, name = bug.implementation.partition(":")
    path = ROOT / f"{module.replace('.', '/')}.py"
    line = lines_of(path).get(name, 1) if path.exists() else 0
    return f"source/{path.relative_to(ROOT).as_posix()}.html#L-{line}" if line else ""
