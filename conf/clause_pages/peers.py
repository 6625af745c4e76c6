"""``.. peers::``, ``.. peers-by-clause::``: what PyTorch's own checks say of the planted bugs in the contract.

``python -m tests.proof peers`` wrote it down, in ``docs/data/peers.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import Record, record_of
from clause_pages.suite import Clause
from clause_pages.template import render

#: The column of this suite.
OURS = "this suite"


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("peers", Summary)
    app.add_directive("peers-by-clause", ByClause)


@dataclass(frozen=True)
class Check:
    """One check: how it is called, how many bugs it notices, and how many correct implementations it refuses."""

    name: str
    text: str
    notices: int
    refuses: int


@dataclass(frozen=True)
class Row:
    """One clause: how many bugs break it, and how many of them each check notices."""

    clause: Clause
    bugs: int
    noticed: Sequence[int]


class Summary(SphinxDirective):
    """Called once: a row for each check."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        record = record_of(self, reports=False)
        checks, bugs, good = list(_checks(record)), len(_rows(record, True)), len(_rows(record, False))
        return [render("peers.html", self.env.docname, checks=checks, bugs=bugs, correct=good)]


class ByClause(SphinxDirective):
    """Called once: a row for each clause of the contract that a bug breaks."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        record = record_of(self, reports=False)
        names = [*record.peers.get("checks", {}), OURS]
        return [render("peers-by-clause.html", self.env.docname, names=names, rows=list(_by_clause(record)))]


def _rows(record: Record, bad: bool) -> list[dict[str, str]]:
    return [row for row in record.peers.get("rows", ()) if bool(row["breaks"]) is bad]


def _checks(record: Record) -> Iterator[Check]:
    for name, text in record.peers.get("checks", {}).items():
        noticed = [sum(row[name] == "notices" for row in _rows(record, bad)) for bad in (True, False)]
        yield Check(name, text, *noticed)
    accused = {row["implementation"] for row in _rows(record, False)}.intersection(record.accused)
    yield Check(OURS, "All clauses, as ``conformance run`` asks them.", len(_caught(record)), len(accused))


def _caught(record: Record) -> set[str]:
    """The bugs among those of the comparison that the suite catches."""
    asked = {row["implementation"] for row in _rows(record, True)}
    return asked & {bug.implementation for bug in record.bugs if bug.caught}


def _by_clause(record: Record) -> Iterator[Row]:
    caught = _caught(record)
    for name, clause in record.registry.items():
        rows = [row for row in _rows(record, True) if row["breaks"] == name]
        if rows:
            noticed = [sum(row[check] == "notices" for row in rows) for check in record.peers["checks"]]
            yield Row(clause, len(rows), [*noticed, sum(row["implementation"] in caught for row in rows)])
