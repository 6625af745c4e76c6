"""A Sphinx extension for the site of a specification: its clauses where they are written, and an index of them.

In ``conf.py``::

    extensions = ["sphinx.ext.autodoc", "conformance.sphinx"]
    conformance_spec = "GatedSum"
    conformance_report = "report/report.json"  # of a run; its verdicts are shown beside the clauses

``.. clause::`` in docstrings becomes a box that can be linked to, ``:clause:`GatedSum.forward.closed``` is such a link,
and ``.. clause-index::`` lists all clauses. Nothing is styled: the nodes have classes for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from conformance.core import catalog, clauses
from conformance.core.clauses import Clause
from conformance.core.errors import UsageError
from conformance.core.sources import by_words


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_config_value("conformance_spec", "", "env", types=[str])
    app.add_config_value("conformance_report", "", "env", types=[str])
    app.add_object_type("clause", "clause", objname="clause", indextemplate="pair: %s; clause")
    app.add_directive_to_domain("std", "clause", ClauseDirective, override=True)
    app.add_directive("clause-index", ClauseIndex)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class ClauseDirective(SphinxDirective):
    """``.. clause::``: the box of one clause."""

    required_arguments = 1
    has_content = True
    option_spec = dict.fromkeys(("level", "party", "sources", "versions"), directives.unchanged)

    def run(self) -> list[nodes.Node]:
        """Make the box."""
        identifier = self.arguments[0]
        clause = _registry(self).get(identifier)
        if clause is None:
            raise self.error(f"clause {identifier}: the specification {self.config.conformance_spec!r} has none such")
        box = nodes.container(classes=["clause", f"level-{clause.level}"], ids=[f"clause-{identifier}"])
        domain = self.env.get_domain("std")
        assert isinstance(domain, StandardDomain)
        domain.note_object("clause", identifier, box["ids"][0], location=box)
        head = nodes.paragraph("", "", nodes.strong("", identifier), nodes.Text(f"  {_party_of(clause)}"))
        box += [head, *self.parse_content_to_nodes(), nodes.bullet_list("", *_facts(self, clause))]
        return [box]


class ClauseIndex(SphinxDirective):
    """``.. clause-index::``: all clauses of the specification in a table."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        rows = [
            (self.parse_text_to_nodes(f":clause:`{clause.id}`"), clause.level, clause.text, _verdict(self, clause.id))
            for clause in _registry(self).values()
        ]
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (30, 8, 50, 12)), cols=4)
        group += nodes.thead("", _row("Clause", "Level", "Text", "Reference"))
        group += nodes.tbody("", *(_row(*cells) for cells in rows))
        return [nodes.table("", group, classes=["clauses"])]


def _registry(directive: SphinxDirective) -> Mapping[str, Clause]:
    """The clauses of the specification that the site is about."""
    spec = directive.config.conformance_spec
    try:
        found = clauses.registry(*filter(None, [spec]))
    except UsageError as error:
        raise ExtensionError(f"conformance_spec in conf.py: {error}") from None
    own = {name: clause for name, clause in found.items() if clause.spec == spec}
    for file in {clause.file for clause in own.values()}:
        directive.env.note_dependency(file)
    return own


def _party_of(clause: Clause) -> str:
    party = "PyTorch" if clause.party == "engine" else "the author"
    return f"{clause.level}, for {party} to keep{f', {clause.versions}' if clause.versions else ''}"


def _facts(directive: SphinxDirective, clause: Clause) -> Iterator[nodes.list_item]:
    """Sources, tests and verdict of a clause."""
    for words, alike in by_words(clause.sources):
        said: list[nodes.Node] = [nodes.Text("source: ")]
        for source in alike:
            said.append(
                nodes.reference("", source.title, refuri=source.url) if source.url else nodes.Text(source.title)
            )
        yield _item(*said, nodes.Text(f' "{words}"' if words else ""))
    for test in catalog.tests_of(clause.id, clause.spec):
        yield _item(nodes.Text("test: "), nodes.literal("", f"{test.file.name}::{test.function}"))
    if verdict := _verdict(directive, clause.id):
        yield _item(nodes.Text(f"reference: {verdict}"))


def _verdict(directive: SphinxDirective, identifier: str) -> str:
    """What the report says of a clause; of several subjects the first, empty where there is no report."""
    named = directive.config.conformance_report
    if not named:
        return ""
    file = Path(directive.env.srcdir, named)
    directive.env.note_dependency(str(file))
    try:
        subjects = json.loads(file.read_text("utf-8"))["subjects"]
    except (OSError, ValueError, KeyError) as error:
        raise ExtensionError(f"conformance_report in conf.py: {file}: {error}") from None
    verdicts = (clause["verdict"] for part in subjects for clause in part["clauses"] if clause["id"] == identifier)
    return str(next(verdicts, ""))


def _item(*inside: nodes.Node) -> nodes.list_item:
    return nodes.list_item("", nodes.paragraph("", "", *inside))


def _row(*cells: str | list[nodes.Node]) -> nodes.row:
    return nodes.row(
        "",
        *(
            nodes.entry("", nodes.paragraph("", cell)) if isinstance(cell, str) else nodes.entry("", *cell)
            for cell in cells
        ),
    )
