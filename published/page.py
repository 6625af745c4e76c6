"""The table of verdicts as it stands in the docs, between two marks in a page that is otherwise written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from published.result import Finding, Row

PAGE = Path("docs/public.md")
BEGIN, END = "<!-- table: written by python -m published --update -->", "<!-- end of table -->"
HEAD = "| class or function, and its spec | verdict | clauses broken |\n|---|---|---|"


def render(table: Sequence[Row]) -> str:
    """The table in Markdown."""
    return "\n".join([HEAD, *map(_line, table)])


def rewrite(table: Sequence[Row], page: Path = PAGE) -> None:
    """Put the table between the marks of a page.

    Raises:
        ValueError: the page has no such marks.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} needs the lines {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n{render(table)}\n{END}{after}", encoding="utf-8")


def _line(row: Row) -> str:
    must = [found for found in row.findings if found.level == "must"]
    rest = [found for found in row.findings if found.level != "must"]
    name = f"`{row.subject}`<br>{' '.join(filter(None, (row.package, row.version)))}, {row.spec}"
    broken = [f"{what}: {_named(found)}" for what, found in (("must", must), ("should, quality", rest)) if found]
    cells = (name, f"**{row.verdict}**", "<br>".join(broken))
    return f"| {' | '.join(cells)} |"


def _named(findings: Sequence[Finding]) -> str:
    """Clauses that were seen to break; those that end in the exception of another one are counted."""
    seen = [found for found in findings if found.verdict != "error"]
    errors = [found for found in findings if found.verdict == "error"]
    shown = [f"`{found.clause}`{' (crash)' if found.verdict == 'crash' else ''}" for found in seen]
    shown += (
        [f"`{found.clause}`" for found in errors] if len(errors) < 3 else [f"{len(errors)} more, with the same error"]
    )
    return ", ".join(shown)
