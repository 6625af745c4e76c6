"""``.. results::``: PyTorch and the reference by clause, as one matrix, and the text of every failure under it."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import DOCS, ENGINE, Run, record_of, release_of
from clause_pages.suite import BROKEN, Clause
from clause_pages.template import render

NOT_RUN = DOCS / "results" / "not-run.toml"
PYTORCH = "PyTorch itself"
LONGEST = 1500


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("results", Results)
    app.add_directive("not-run", NotRun)


@dataclass(frozen=True)
class Column:
    """One column of the matrix: an implementation in environments where it got the same verdicts."""

    name: str
    environments: tuple[str, ...]
    date: str
    verdict: str
    clauses: Mapping[str, Mapping[str, Any]]

    @property
    def group(self) -> str:
        """What a reader can pick the column by."""
        return PYTORCH if self.name == PYTORCH else "the reference"

    @property
    def releases(self) -> str:
        """The PyTorch of each environment, without its build."""
        return ", ".join(dict.fromkeys(str(release_of(environment)) for environment in self.environments))

    @property
    def where(self) -> str:
        """The environments in few words: what they share is said once."""
        if len(self.environments) == 1:
            return self.environments[0]
        around = dict.fromkeys(environment.partition(", ")[2] for environment in self.environments)
        return f"PyTorch {self.releases}; {' and '.join(around)}"

    @cached_property
    def counts(self) -> Counter[str]:
        """How many clauses got each verdict, all broken ones under one name."""
        return Counter(_kind(found["verdict"]) for found in self.clauses.values())


@dataclass(frozen=True)
class Failure:
    """A broken clause of a column, with the first message."""

    clause: Clause
    column: Column
    anchor: str
    verdict: str
    text: str
    tests: int


class Results(SphinxDirective):
    """Called once: PyTorch and the reference."""

    def run(self) -> list[nodes.Node]:
        """Make the counts, the filters, the matrix and the failures."""
        record = record_of(self, reports=True)
        columns = columns_of(run for run in record.runs if run.about_reference)
        judged = {name for column in columns for name in column.clauses}
        clauses = [clause for clause in record.clauses if clause.id in judged]
        return [
            render(
                "results.html",
                self.env.docname,
                columns=columns,
                clauses=clauses,
                environments=list(dict.fromkeys(place for column in columns for place in column.environments)),
                failures=list(_failures(clauses, columns)),
                kind=_kind,
            )
        ]


def columns_of(runs: Iterable[Run]) -> list[Column]:
    """The reports' parts as columns: PyTorch first, then the reference by name."""
    found = [
        Column(
            PYTORCH if run.implementation == ENGINE else run.name,
            (run.environment,),
            run.date,
            run.verdict,
            run.clauses,
        )
        for run in runs
    ]
    found = _agreeing(sorted(_newest(found), key=lambda column: release_of(column.environments[0])))
    return sorted(found, key=lambda column: (column.name != PYTORCH, column.name))


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


def _kind(verdict: str) -> str:
    return "broken" if verdict in BROKEN else verdict


def _failures(clauses: Sequence[Clause], columns: Sequence[Column]) -> Iterator[Failure]:
    for number, column in enumerate(columns):
        for clause in clauses:
            found = column.clauses.get(clause.id)
            if found and found["verdict"] in BROKEN:
                messages = [test["message"] for test in found["tests"] if test["outcome"] in BROKEN and test["message"]]
                text = messages[0][:LONGEST] if messages else found["reason"] or "no message"
                anchor = f"failed-{number}-{clause.id}"
                yield Failure(clause, column, anchor, found["verdict"], text, len(messages))


class NotRun(SphinxDirective):
    """Called once: what no report covers, with the reason and the date."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        self.env.note_dependency(str(NOT_RUN))
        entries = tomllib.loads(NOT_RUN.read_text("utf-8"))["not-run"] if NOT_RUN.exists() else []
        return [render("not-run.html", self.env.docname, entries=entries)]
