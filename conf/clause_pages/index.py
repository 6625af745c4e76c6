"""``.. clause-index::``: every clause in one table that can be filtered."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import Record
from clause_pages.template import render


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("clause-index", ClauseIndex)


class ClauseIndex(SphinxDirective):
    """Called once: all clauses."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        record: Record = self.env.app.clause_record  # type: ignore[attr-defined]
        for path in {clause.file for clause in record.clauses}:
            self.env.note_dependency(path)
        return [render("clause-index.html", self.env.docname, clauses=record.clauses, record=record)]
