"""``.. clause-index::``: every clause in one table that can be filtered, and the counts by object, level and party."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.html import Markup, breakable, link, prose, raw, tag, together
from clause_pages.margin import MARKS, verdict_class, worst
from clause_pages.record import Record
from conformance.core.clauses import LEVELS, PARTIES, Clause
from conformance.report.model import page_of


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("clause-index", ClauseIndex)


class ClauseIndex(SphinxDirective):
    """Called where a page lists clauses: all of them, or with an argument (object, level, party) in groups."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the table, or one list for each group."""
        record: Record = self.env.app.clause_record  # type: ignore[attr-defined]
        for path in record.files:
            self.env.note_dependency(str(path))
        for clause in record.registry.values():
            self.env.note_dependency(clause.file)
        by = directives.choice(self.arguments[0], ("object", "level", "party")) if self.arguments else None
        if by:
            return [raw(_grouped(record, by, self.env.docname))]
        return [raw(together(filters(record.registry.values()), _table(record, self.env.docname)))]


def filters(clauses: Iterable[Clause], *more: Markup) -> Markup:
    """The row of controls over a table; ``site.js`` gives them their effect."""
    specs = list(dict.fromkeys(clause.spec for clause in clauses))
    return tag(
        "form",
        tag("label", "Words ", tag("input", type="search", name="words", placeholder="id or text")),
        choice("Spec", "spec", specs),
        choice("Level", "level", LEVELS),
        choice("Owed by", "party", PARTIES),
        *more,
        tag("output", "", name="count", aria_live="polite"),
        class_="filters",
        role="search",
        aria_label="filter the table",
    )


def choice(label: str, name: str, values: Iterable[str]) -> Markup:
    """One control that picks a value, or all."""
    options = [tag("option", "all", value=""), *(tag("option", value, value=value) for value in values)]
    return tag("label", f"{label} ", tag("select", *options, name=name))


def scrolling(table: Markup, label: str) -> Markup:
    """A table that scrolls by itself where the page is narrow, by keyboard too."""
    return tag("div", table, class_="table-wrap", tabindex="0", role="region", aria_label=label)


def _table(record: Record, docname: str) -> Markup:
    heads = ("Clause", "Level", "Owed by", "Tests", "Bugs killed", "Reference")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    rows = [_row(record, clause, docname) for clause in record.registry.values()]
    return scrolling(tag("table", head, tag("tbody", *rows), class_="filtered clauses"), "all clauses")


def _row(record: Record, clause: Clause, docname: str) -> Markup:
    verdict = worst(found["verdict"] for run, found in record.verdicts(clause.id) if run.about_reference)
    return tag(
        "tr",
        tag(
            "th",
            tag("a", breakable(clause.id), href=link(docname, page_of(clause))),
            tag("p", prose(clause.text)),
            scope="row",
        ),
        tag("td", tag("span", clause.level, class_=f"badge {clause.level}")),
        tag("td", clause.party),
        tag("td", str(len(record.tests.get(clause.id, ())))),
        tag("td", str(len(record.bugs_of.get(clause.id, ())))),
        tag(
            "td",
            tag(
                "span", f"{MARKS.get(verdict, '…')} {verdict or 'not run'}", class_=f"verdict {verdict_class(verdict)}"
            ),
        ),
        **row_data(clause),
    )


def row_data(clause: Clause) -> dict[str, str]:
    """What the filters look at."""
    return {"data_spec": clause.spec, "data_level": clause.level, "data_party": clause.party}


def _grouped(record: Record, by: str, docname: str) -> Markup:
    def key(clause: Clause) -> str:
        return clause.id.rpartition(".")[0] if by == "object" else str(getattr(clause, by))

    counts = Counter(key(clause) for clause in record.registry.values())
    parts = []
    for group, number in counts.items():
        items = [
            tag("li", tag("a", clause.id, href=link(docname, page_of(clause))))
            for clause in record.registry.values()
            if key(clause) == group
        ]
        summary = tag("summary", f"{group} ", tag("span", str(number), class_="badge party"))
        parts.append(tag("details", summary, tag("ul", *items), class_="group"))
    return together(*parts)
