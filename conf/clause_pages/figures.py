"""``{figure}`NAME```: a figure in a sentence, taken from the data that it is about."""

from __future__ import annotations

from collections.abc import Mapping

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from clause_pages.record import Record, record_of
from clause_pages.scanned import scan_figures

log = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Add the role."""
    app.add_role("figure", Figure())


class Figure(SphinxRole):
    """Called for every figure in prose."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Look it up; one that is not known is a warning."""
        known = figures(record_of(self, reports=False))
        if self.text not in known:
            where = (self.env.docname, self.lineno)
            log.warning("no figure %r; there are %s", self.text, ", ".join(known), location=where)
        return [nodes.Text(f"{known.get(self.text, 0):,}")], []


def figures(record: Record) -> Mapping[str, int]:
    """Every figure that prose may name."""
    gathers = [bug for bug in record.bugs if bug.caught and bug.ranks > 1]
    verdicts = [row["verdict"] for row in record.published]
    return {
        "clauses": len(record.registry),
        "clauses-tested": sum(1 for name in record.registry if record.tests.get(name)),
        "clauses-killing": sum(1 for name in record.registry if record.bugs_of.get(name)),
        "tests": sum(len(tests) for tests in record.tests.values()),
        "bugs": len(record.bugs),
        "bugs-caught": sum(bug.caught for bug in record.bugs),
        "bugs-alone": sum(not bug.also for bug in record.bugs),
        "gather-bugs": len(gathers),
        "gather-bugs-two-ranks": sum(bug.ranks == 2 for bug in gathers),
        "correct": len(record.correct),
        "mutants": record.mutants.get("mutants", 0),
        "mutants-killed": record.mutants.get("killed", 0),
        "mutants-survived": len(record.mutants.get("survivors", ())),
        "scripts": len(record.scripts),
        "scripts-shown": sum(row["shown"] for row in record.scripts),
        "scripts-short": sum(row["short"] for row in record.scripts),
        "published": len(record.published),
        "packages": len({row["package"] for row in record.published}),
        **scan_figures(record.scanned),
        **{f"published-{verdict}": verdicts.count(verdict) for verdict in ("conforms", "deviates", "fails")},
    }
