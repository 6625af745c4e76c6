"""``.. proof::`` and ``.. kill-matrix::``: the figures of the proof, and which clause killed which planted bug."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.html import Markup, breakable, link, prose, raw, tag, together
from clause_pages.index import choice, filters, row_data, scrolling
from clause_pages.record import ROOT, Bug, Record
from clause_pages.sources import lines_of
from conformance.report.model import page_of


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("proof", Figures)
    app.add_directive("kill-matrix", KillMatrix)


class _FromData(SphinxDirective):
    @property
    def record(self) -> Record:
        record: Record = self.env.app.clause_record  # type: ignore[attr-defined]
        for path in record.files:
            self.env.note_dependency(str(path))
        return record


class Figures(_FromData):
    """Called once: the proof in a handful of numbers."""

    def run(self) -> list[nodes.Node]:
        """Make the list."""
        return [raw(_figures(self.record))]


class KillMatrix(_FromData):
    """Called once: a row for every planted bug."""

    def run(self) -> list[nodes.Node]:
        """Make the table, and the list of mutants that survived."""
        record = self.record
        if not record.bugs:
            return [raw(tag("p", "The kill matrix has not been computed yet."))]
        controls = filters(record.registry.values(), choice("Fate", "fate", ("caught", "survived")))
        return [raw(together(controls, _table(record, self.env.docname)))]


def _figures(record: Record) -> Markup:
    caught, precise = sum(bug.caught for bug in record.bugs), sum(bug.precise for bug in record.bugs)
    killing = sum(1 for identifier in record.registry if record.bugs_of.get(identifier))
    asserted = sum(1 for identifier in record.registry if record.tests.get(identifier))
    tests = sum(len(tests) for tests in record.tests.values())
    rows = [
        (f"{len(record.registry)}", f"clauses, of which {asserted} are asserted by {tests} tests"),
        (
            f"{caught} of {len(record.bugs)}",
            f"planted bugs caught by the clause they break; {precise} without accusing another",
        ),
        (f"{killing} of {len(record.registry)}", "clauses that have killed a planted bug"),
        (f"{len(record.correct)}", "correct implementations that nothing may accuse"),
    ]
    if record.mutants:
        survived = len(record.mutants["survivors"])
        rows.append(
            (
                f"{record.mutants['killed']} of {record.mutants['mutants']}",
                f"mutants of the reference killed; {survived} survived",
            )
        )
    items = [tag("div", tag("dt", number), tag("dd", words)) for number, words in rows]
    return tag("dl", *items, class_="figures")


def _table(record: Record, docname: str) -> Markup:
    heads = ("Planted bug", "Clause that must notice", "Fate", "Breaks too")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    rows = [_row(record, bug, docname) for bug in record.bugs]
    return scrolling(tag("table", head, tag("tbody", *rows), class_="filtered"), "planted bugs")


def _row(record: Record, bug: Bug, docname: str) -> Markup:
    clause = record.registry.get(bug.breaks)
    fate = "caught" if bug.caught else "survived"
    return tag(
        "tr",
        tag("th", _name(bug, docname), tag("p", prose(bug.text)), scope="row"),
        tag("td", tag("a", breakable(bug.breaks), href=link(docname, page_of(clause))) if clause else bug.breaks),
        tag(
            "td",
            tag("span", f"{'✓' if bug.caught else '✗'} {fate}", class_=f"verdict {'good' if bug.caught else 'bad'}"),
        ),
        tag("td", breakable(", ".join(bug.also)) or "nothing"),
        id=f"bug-{bug.implementation}",
        data_fate=fate,
        **(row_data(clause) if clause else {}),
    )


def _name(bug: Bug, docname: str) -> Markup:
    module, _, name = bug.implementation.partition(":")
    path = ROOT / f"{module.replace('.', '/')}.py"
    if not path.exists():
        return tag("span", bug.name)
    line = lines_of(path).get(name, 1)
    return tag("a", bug.name, href=link(docname, f"source/{path.relative_to(ROOT).as_posix()}.html#L-{line}"))
