"""``.. picture:: NAME``: a drawing of ``docs/_static`` set into the page, so that it follows light and dark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.html import Markup, raw, tag, together
from clause_pages.record import DOCS, Record
from clause_pages.results import GROUPS, Column, columns_asked_for
from conformance.report.model import BROKEN

WIDTH, ROW, NAMES, COUNTS = 720, 22, 290, 120
KINDS = ("kept", "broken", "not run", "not applicable")


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("picture", Picture)
    app.add_directive("conformance-chart", Chart)


class Picture(SphinxDirective):
    """Called for every drawing; the content is its caption."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Set the drawing into a figure."""
        path = DOCS / "_static" / f"{self.arguments[0]}.svg"
        self.env.note_dependency(str(path))
        svg = Markup(path.read_text("utf-8"))
        return [raw(_figure(svg, " ".join(self.content)))]


def _figure(svg: Markup, caption: str) -> Markup:
    wide = tag("div", svg, class_="drawing", tabindex="0", role="group", aria_label="drawing")
    return tag("figure", wide, tag("figcaption", caption), class_="picture")


class Chart(SphinxDirective):
    """A bar for each implementation of the committed reports; with the argument ``published`` for those alone."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        record: Record = self.env.app.clause_record  # type: ignore[attr-defined]
        for path in record.files:
            self.env.note_dependency(str(path))
        columns = columns_asked_for(record.runs, self.arguments)
        if not columns:
            return []
        caption = "Clauses that each implementation keeps, breaks, or has nothing to do with; the matrix names them."
        return [raw(_figure(chart(columns), caption))]


def chart(columns: Sequence[Column]) -> Markup:
    """Bars of equal length, divided by what became of the clauses that were looked at."""
    parts: list[str] = []
    y = 30
    for group in GROUPS:
        members = [column for column in columns if column.group == group]
        if members:
            parts.append(tag("text", group, x="0", y=str(y), class_="head"))
            y += 10
        for column in members:
            twice = sum(other.name == column.name for other in members) > 1
            parts.append(_bar(column, y, f"{column.name} {column.releases}" if twice else column.name))
            y += ROW
        y += 26 if members else 0
    legend = _legend(y)
    title = tag("title", "Conformance by implementation")
    shape = f"0 0 {WIDTH} {y + 14}"
    return tag("svg", title, *parts, legend, viewBox=shape, role="img", class_="chart", width=str(WIDTH))


def _bar(column: Column, y: int, name: str) -> Markup:
    counts = Counter(_kind(found["verdict"]) for found in column.clauses.values())
    total, x, parts = sum(counts.values()) or 1, float(NAMES), []
    for kind in KINDS:
        width = (WIDTH - NAMES - COUNTS) * counts[kind] / total
        if width:
            shape = {"x": f"{x:.1f}", "y": str(y), "width": f"{width:.1f}", "height": str(ROW - 8)}
            parts.append(tag("rect", tag("title", f"{counts[kind]} {kind}"), **shape, class_=kind.replace(" ", "-")))
        x += width
    label = tag(
        "text", name if len(name) < 44 else f"…{name[-42:]}", x=str(NAMES - 10), y=str(y + 11), text_anchor="end"
    )
    said = f"{counts['kept']} kept" + (f", {counts['broken']} broken" if counts["broken"] else "")
    number = tag("text", said, x=str(WIDTH - COUNTS + 8), y=str(y + 11), class_="small")
    return tag("g", label, *parts, number)


def _kind(verdict: str) -> str:
    kinds = {"pass": "kept", "not-applicable": "not applicable", **dict.fromkeys(BROKEN, "broken")}
    return kinds.get(verdict, "not run")


def _legend(y: int) -> Markup:
    parts = []
    for number, kind in enumerate(KINDS):
        x = NAMES + number * 100
        parts.append(tag("rect", x=str(x), y=str(y - 8), width="10", height="10", class_=kind.replace(" ", "-")))
        parts.append(tag("text", kind, x=str(x + 14), y=str(y + 1), class_="small"))
    return together(*parts)
