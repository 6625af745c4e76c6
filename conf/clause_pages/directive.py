"""``.. clause::`` in a docstring: the promise, where it can be linked to, and what was proved of it."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from clause_pages.html import Markup, raw, tag, together
from clause_pages.margin import margin
from conformance.core.sources import Source, SourceError, by_words, parse

log = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Add the directive, the role of the same name, and the entry in search and inventory."""
    app.add_object_type("clause", "clause", objname="clause", indextemplate="pair: %s; clause")
    app.registry.domain_object_types["std"]["clause"].attrs["searchprio"] = 0
    app.add_directive_to_domain("std", "clause", Clause, override=True)


class Clause(SphinxDirective):
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
        record = self.env.app.clause_record  # type: ignore[attr-defined]
        if not record.tests.get(identifier):
            log.warning("clause %s is asserted by no test", identifier, location=self.get_location())
        for path in record.files:
            self.env.note_dependency(str(path))
        anchor = f"clause-{identifier}"
        box = nodes.container(classes=["clause", f"level-{self.options.get('level', '')}"])
        box["ids"].append(anchor)
        self.set_source_info(box)
        domain = self.env.get_domain("std")
        assert isinstance(domain, StandardDomain)
        domain.note_object("clause", identifier, anchor, location=box)
        box += raw(self._head(identifier, anchor))
        box += self.parse_content_to_nodes()
        box += raw(_said(self._sources()))
        box += raw(margin(record, identifier, self.env.docname))
        return [box]

    def _head(self, identifier: str, anchor: str) -> str:
        level, party = self.options.get("level", ""), self.options.get("party", "function")
        parts = [
            tag("a", identifier, href=f"#{anchor}", class_="clause-id", title="link to this clause"),
            tag("span", level, class_=f"badge {level}"),
            tag("span", "PyTorch owes it" if party == "engine" else "the author owes it", class_="badge party"),
        ]
        if self.options.get("versions"):
            parts.append(tag("span", self.options["versions"], class_="badge party"))
        return tag("div", together(*parts), class_="clause-head")

    def _sources(self) -> tuple[Source, ...]:
        try:
            return parse(" ".join(self.options.get("sources", "").split()))
        except SourceError as error:
            raise self.error(f"clause {self.arguments[0]}: sources: {error}") from None


def _said(sources: tuple[Source, ...]) -> Markup:
    """The sources of a clause, each a link where it can be read."""
    rows = []
    for words, alike in by_words(sources):
        names = together(*(part for source in alike for part in (", ", _name(source))))
        rows.append(tag("li", Markup(names.removeprefix(", ")), *([" ", tag("q", words)] if words else [])))
    return tag("div", "Sources", tag("ul", *rows), class_="said")


def _name(source: Source) -> Markup:
    return tag("a", source.title, href=source.url) if source.url else tag("span", source.title)
