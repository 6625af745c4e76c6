"""``.. picture:: NAME``: a drawing of ``docs/_static`` set into the page, so that it follows light and dark."""

from __future__ import annotations

from docutils import nodes
from markupsafe import Markup
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import DOCS
from clause_pages.template import render


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("picture", Picture)


class Picture(SphinxDirective):
    """Called for every drawing; the content is its caption."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Set the drawing into a figure."""
        path = DOCS / "_static" / f"{self.arguments[0]}.svg"
        self.env.note_dependency(str(path))
        drawing = Markup(path.read_text("utf-8"))
        return [render("picture.html", self.env.docname, drawing=drawing, caption=" ".join(self.content))]
