"""``.. clause-index::``: every clause in one table that can be filtered, and the counts by object, level and party."""

from __future__ import annotations

from collections import defaultdict

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import Record
from clause_pages.suite import Clause
from clause_pages.template import render


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("clause-index", ClauseIndex)


class ClauseIndex(SphinxDirective):
    """Called where a page lists clauses: all of them, or with an argument (object, level, party) in groups."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the table, or one list for each group."""
        record: Record = self.env.app.clause_record  # type: ignore[attr-defined]
        clauses = record.clauses
        for path in {clause.file for clause in clauses}:
            self.env.note_dependency(path)
        if not self.arguments:
            return [render("clause-index.html", self.env.docname, clauses=clauses, record=record)]
        by = directives.choice(self.arguments[0], ("object", "level", "party"))
        groups: dict[str, list[Clause]] = defaultdict(list)
        for clause in clauses:
            groups[clause.id.rpartition(".")[0] if by == "object" else getattr(clause, by)].append(clause)
        return [render("clause-groups.html", self.env.docname, groups=groups)]
