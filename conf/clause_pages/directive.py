"""``.. clause::`` in a docstring: the promise, where it can be linked to, and what was proved of it."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from clause_pages.margin import margin
from clause_pages.record import Record
from clause_pages.suite import ClauseError, Source, by_words, clauses
from clause_pages.template import render

log = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Add the directive, the role of the same name, and the entry in search and inventory."""
    app.add_object_type("clause", "clause", objname="clause", indextemplate="pair: %s; clause")
    app.registry.domain_object_types["std"]["clause"].attrs["searchprio"] = 0
    app.add_directive_to_domain("std", "clause", ClauseDirective, override=True)


class ClauseDirective(SphinxDirective):
    """Called for every clause while its page is read."""

    required_arguments = 1
    has_content = True
    option_spec = {
        "level": directives.unchanged_required,
        "party": directives.unchanged,
        "sources": directives.unchanged_required,
        "versions": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Make the box of one clause."""
        identifier = self.arguments[0]
        record: Record = self.env.app.clause_record  # type: ignore[attr-defined]
        if not record.tests.get(identifier):
            log.warning("clause %s is asserted by no test", identifier, location=self.get_location())
        anchor = f"clause-{identifier}"
        box = nodes.container(classes=["clause", f"level-{self.options.get('level', '')}"])
        box["ids"].append(anchor)
        self.set_source_info(box)
        domain = self.env.get_domain("std")
        assert isinstance(domain, StandardDomain)
        domain.note_object("clause", identifier, anchor, location=box)
        box += self._head(identifier, anchor)
        box += self.parse_content_to_nodes()
        box += render("clause-sources.html", self.env.docname, said=by_words(self._sources()))
        box += margin(record, identifier, self.env.docname)
        return [box]

    def _head(self, identifier: str, anchor: str) -> nodes.raw:
        return render(
            "clause-head.html",
            self.env.docname,
            identifier=identifier,
            anchor=anchor,
            level=self.options.get("level", ""),
            party=self.options.get("party", "function"),
            versions=self.options.get("versions", ""),
        )

    def _sources(self) -> tuple[Source, ...]:
        try:
            return clauses.registry()[self.arguments[0]].sources
        except (ClauseError, KeyError) as error:
            raise self.error(f"clause {self.arguments[0]}: {error}") from None
