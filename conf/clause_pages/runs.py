"""``.. ran::``: when data were taken, on which PyTorch, by which commit and command; and whether clauses changed since.

All of it stands in the data themselves, under ``machine``: ``benchmarks.measure`` says what that is. Rows that joined
later stand under ``added``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.suite import clauses
from clause_pages.template import render

DATA = Path(__file__).parents[2] / "docs" / "data"


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("ran", Ran)


@dataclass(frozen=True, order=True)
class Taken:
    """The day on which data were taken, the PyTorch, the commit of the suite, and the digest of its clauses."""

    date: str
    torch: str
    commit: str
    clauses_sha256: str

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Taken:
        """Read it from data."""
        return cls(*(str(about.get(key, "")) for key in ("date", "torch", "commit", "clauses_sha256")))

    @property
    def old(self) -> bool:
        """Whether a clause has changed, come or gone since."""
        return self.clauses_sha256 != clauses.digest()


def taken(rows: Iterable[Mapping[str, Any]]) -> list[Taken]:
    """All that rows were taken by, the oldest first."""
    return sorted({Taken.of(row) for row in rows if row.get("date")})


class Ran(SphinxDirective):
    """Called with the names of data files; its content is the command that wrote them."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Make a line for each file."""
        found = []
        for name in self.arguments[0].split():
            path = DATA / f"{name}.json"
            self.env.note_dependency(str(path))
            data = json.loads(path.read_text("utf-8")) if path.exists() else {}
            about = [data["machine"]] if "machine" in data else data.get("subjects", ())
            found.append((name, taken(about), taken([data["added"]] if "added" in data else [])))
        return [render("ran.html", self.env.docname, found=found, command=" ".join(self.content))]
