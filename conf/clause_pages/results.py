"""``.. results::``: the committed reports as one matrix, and the text of every failure under it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.html import Markup, breakable, link, plain, prose, raw, tag, together
from clause_pages.index import choice, filters, row_data, scrolling
from clause_pages.margin import MARKS, verdict_class
from clause_pages.record import DOCS, ENGINE, Record, Run
from conformance.core.clauses import Clause
from conformance.report.model import BROKEN, page_of

NOT_RUN = DOCS / "results" / "not-run.toml"
GROUPS = ("PyTorch itself", "the reference", "published implementations")
PUBLISHED = GROUPS[2]
LONGEST = 1500
#: From here on columns are narrower.
MANY = 30


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("results", Results)
    app.add_directive("not-run", NotRun)


@dataclass(frozen=True)
class Column:
    """One column of the matrix: an implementation, all its specs together, in environments that gave the same."""

    group: str
    name: str
    environments: tuple[str, ...]
    date: str
    verdict: str
    clauses: Mapping[str, Mapping[str, Any]]

    @property
    def labels(self) -> tuple[str, ...]:
        """What a reader can pick the column by."""
        if self.group != PUBLISHED:
            return (self.group,)
        return f"those that {_plural(self.verdict)}", self.name.partition(":")[0]

    @property
    def releases(self) -> str:
        """The PyTorch of each environment, without its build."""
        found = (environment.partition(", ")[0].removeprefix("PyTorch ") for environment in self.environments)
        return ", ".join(dict.fromkeys(release.partition("+")[0] for release in found))

    @property
    def where(self) -> str:
        """The environments in few words: what they share is said once."""
        if len(self.environments) == 1:
            return self.environments[0]
        around = dict.fromkeys(environment.partition(", ")[2] for environment in self.environments)
        return f"PyTorch {self.releases}; {' and '.join(around)}"


class Results(SphinxDirective):
    """Called for PyTorch and the reference, and with the argument ``published`` for everybody else."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the filters, the matrix and the failures."""
        record: Record = self.env.app.clause_record  # type: ignore[attr-defined]
        for path in record.files:
            self.env.note_dependency(str(path))
        columns = columns_asked_for(record.runs, self.arguments)
        if not columns:
            return [raw(tag("p", "No report has been committed yet."))]
        environments = list(dict.fromkeys(place for column in columns for place in column.environments))
        controls = filters(
            record.registry.values(),
            choice("Verdict", "verdict", ("pass", "broken", "skipped", "not-applicable")),
            *([choice("Environment", "environment", environments)] if len(environments) > 1 else []),
            _whose(columns),
        )
        matrix = scrolling(
            _matrix(record, columns, self.env.docname, several=len(environments) > 1), "clauses by implementations"
        )
        failures = list(_failures(record, columns, self.env.docname))
        told = [tag("h2", "What failed", id="what-failed"), *failures] if failures else [tag("p", "Nothing failed.")]
        where = [tag("p", f"All of them ran on {environments[0]}.")] if len(environments) == 1 else []
        return [raw(together(*where, controls, matrix, tag("section", *told, class_="failures")))]


def columns_asked_for(runs: Sequence[Run], arguments: Sequence[str]) -> list[Column]:
    """The columns of published implementations, or all the others."""
    published = bool(arguments) and bool(directives.choice(arguments[0], ("published",)))
    return [column for column in columns_of(runs) if (column.group == PUBLISHED) == published]


def _whose(columns: Sequence[Column]) -> Markup:
    """The control that picks columns: by group, or among the published ones by package and verdict."""
    groups = dict.fromkeys(group for column in columns for group in column.labels)
    return choice("Whose", "group", groups)


def columns_of(runs: Sequence[Run]) -> list[Column]:
    """The reports' parts as columns: PyTorch first, then the reference, then everybody else, by name."""
    found = []
    for run in runs:
        group = 0 if run.implementation == ENGINE else 1 if run.about_reference else 2
        found.append(Column(GROUPS[group], run.name, (run.environment,), run.date, run.verdict, run.clauses))
    found = _agreeing(sorted(_newest(found), key=lambda column: _release(column.environments[0])))
    return sorted(found, key=lambda column: (GROUPS.index(column.group), column.name))


def _newest(columns: Sequence[Column]) -> list[Column]:
    """Where two reports judge the same thing in the same environment, the newer one counts."""
    kept: dict[tuple[str, tuple[str, ...]], Column] = {}
    for column in sorted(columns, key=lambda column: column.date):
        before = kept.get((column.name, column.environments))
        clauses = {**(before.clauses if before else {}), **column.clauses}
        kept[column.name, column.environments] = replace(column, clauses=clauses)
    return list(kept.values())


def _agreeing(columns: Iterable[Column]) -> list[Column]:
    """Where an implementation got the same verdicts in several environments, one column says so for all."""
    kept: dict[tuple[object, ...], Column] = {}
    for column in columns:
        verdicts = tuple(sorted((name, found["verdict"]) for name, found in column.clauses.items()))
        key = (column.name, column.verdict, verdicts)
        before = kept.get(key, replace(column, environments=()))
        kept[key] = replace(column, environments=(*before.environments, *column.environments))
    return list(kept.values())


def _release(environment: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", environment.partition(",")[0].partition("+")[0])]


def _matrix(record: Record, columns: Sequence[Column], docname: str, several: bool) -> Markup:
    heads = [
        tag(
            "th",
            tag("span", breakable(column.name), class_="who"),
            *([tag("span", column.where, class_="where")] if several else []),
            tag("span", column.verdict or "", class_="overall"),
            scope="col",
            data_environment="|".join(column.environments),
            data_group="|".join(column.labels),
        )
        for column in columns
    ]
    head = tag("thead", tag("tr", tag("th", "Clause", scope="col"), *heads))
    judged = {name for column in columns for name in column.clauses}
    rows = [_row(clause, columns, docname) for clause in record.registry.values() if clause.id in judged]
    many = " many" if len(columns) > MANY else ""
    return tag("table", head, tag("tbody", *rows), class_=f"filtered matrix{many}")


def _plural(verdict: str) -> str:
    """``fails`` as ``fail``; ``incomplete`` is no verb."""
    return {"incomplete": "were not run whole"}.get(verdict, verdict.removesuffix("s"))


def _row(clause: Clause, columns: Sequence[Column], docname: str) -> Markup:
    cells = [_cell(clause, number, column) for number, column in enumerate(columns)]
    name = tag("a", breakable(clause.id), href=link(docname, page_of(clause)), title=plain(clause.text))
    return tag("tr", tag("th", name, scope="row"), *cells, **row_data(clause))


def _cell(clause: Clause, number: int, column: Column) -> Markup:
    found = column.clauses.get(clause.id)
    verdict = found["verdict"] if found else ""
    data = {"data_verdict": "broken" if verdict in BROKEN else verdict}
    if not found:
        return tag("td", tag("span", " ", class_="hidden-words"), **data)
    mark = tag("span", MARKS[verdict], class_=f"verdict {verdict_class(verdict)}", aria_hidden="true")
    words = tag("span", verdict, class_="hidden-words")
    if verdict in BROKEN:
        said = f"{verdict}: {clause.id} by {column.name}; read why"
        return tag("td", tag("a", mark, href=f"#failed-{number}-{clause.id}", aria_label=said, title=said), **data)
    return tag("td", mark, words, title=found.get("reason") or verdict, **data)


def _failures(record: Record, columns: Sequence[Column], docname: str) -> Iterator[Markup]:
    for number, column in enumerate(columns):
        for clause in record.registry.values():
            found = column.clauses.get(clause.id)
            if found and found["verdict"] in BROKEN:
                yield _failure(clause, found, number, column, docname)


def _failure(clause: Clause, found: Mapping[str, Any], number: int, column: Column, docname: str) -> Markup:
    messages = [test["message"] for test in found["tests"] if test["outcome"] in BROKEN and test["message"]]
    first = messages[0][:LONGEST] if messages else found["reason"] or "no message"
    more = f" {len(messages)} tests say so; this is the first." if len(messages) > 1 else ""
    return tag(
        "article",
        tag("h3", f"{column.name}: ", tag("a", clause.id, href=link(docname, page_of(clause)))),
        tag("p", f"{found['verdict']}, {column.where}, {column.date}.{more}"),
        tag("p", prose(clause.text)),
        tag("pre", first, tabindex="0"),
        id=f"failed-{number}-{clause.id}",
    )


class NotRun(SphinxDirective):
    """Called once: what no report covers, with the reason and the date."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        if not NOT_RUN.exists():
            return []
        self.env.note_dependency(str(NOT_RUN))
        rows = [
            tag("tr", tag("th", entry["what"], scope="row"), tag("td", entry["reason"]), tag("td", str(entry["date"])))
            for entry in tomllib.loads(NOT_RUN.read_text("utf-8"))["not-run"]
        ]
        head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in ("What", "Why", "As of"))))
        return [raw(scrolling(tag("table", head, tag("tbody", *rows)), "what was not run"))]
