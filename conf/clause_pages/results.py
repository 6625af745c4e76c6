"""``.. results::`` and ``.. not-run::``: PyTorch itself and every class of the reference, over all that was run.

A class has one row, and a clause has one only where its verdict is not the same everywhere.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import DOCS, ENGINE, Record, Run, record_of, release_of
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
class Spread:
    """An implementation: its verdicts and the counts of its clauses, each with the environments that gave it."""

    name: str
    verdicts: Mapping[str, Sequence[str]]
    holds: str
    broken: str
    #: Clauses of level may that do not hold: these change no verdict.
    noted: str
    not_applicable: str


@dataclass(frozen=True)
class Difference:
    """A clause whose verdict is not the same everywhere, and those that got these verdicts of it."""

    clause: Clause
    names: Sequence[str]
    verdicts: Sequence[str]


@dataclass(frozen=True)
class Failure:
    """A message about a clause that does not hold, the implementations that got it, and where."""

    clause: Clause
    text: str
    names: Sequence[str]
    environments: Sequence[str]


class Results(SphinxDirective):
    """Called once: PyTorch and the reference."""

    def run(self) -> list[nodes.Node]:
        """Make the rows of classes, the clauses that differ, and the messages."""
        record = record_of(self, reports=True)
        found = by_environment(record.runs)
        return [
            render(
                "results.html",
                self.env.docname,
                environments=list(found),
                spreads=spreads(record, found),
                differences=list(differences(record, found)),
                failures=list(_failures(record, found)),
            )
        ]


def by_environment(runs: Iterable[Run]) -> Mapping[str, Sequence[Run]]:
    """The runs of PyTorch and the reference by environment, the oldest release first."""
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.about_reference:
            found[run.environment].append(run)
    return dict(sorted(found.items(), key=lambda item: release_of(item[0])))


def name_of(run: Run) -> str:
    """The name of a row."""
    return PYTORCH if run.implementation == ENGINE else run.name


def spreads(record: Record, found: Mapping[str, Sequence[Run]]) -> list[Spread]:
    """A row for each implementation, PyTorch first."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in (run for of_one in found.values() for run in of_one):
        runs[name_of(run)].append(run)
    rows = [_spread(record, name, own) for name, own in runs.items()]
    return sorted(rows, key=lambda row: (row.name != PYTORCH, row.name))


def _spread(record: Record, name: str, runs: Sequence[Run]) -> Spread:
    verdicts: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        verdicts[run.verdict].append(run.environment)
    counts = [Counter(_kind(record, each, one["verdict"]) for each, one in run.clauses.items()) for run in runs]
    kinds = ("pass", "broken", "noted", "not-applicable")
    return Spread(name, verdicts, *(_range([count[kind] for count in counts]) for kind in kinds))


def _kind(record: Record, identifier: str, verdict: str) -> str:
    if verdict not in BROKEN:
        return verdict
    clause = record.registry.get(identifier)
    return "noted" if clause and clause.level == "may" else "broken"


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"


def differences(record: Record, found: Mapping[str, Sequence[Run]]) -> Iterator[Difference]:
    """Clauses that are promised for some releases alone, and those whose verdict is not the same everywhere."""
    said: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for environment, runs in found.items():
        for run in runs:
            for identifier, clause in run.clauses.items():
                said[identifier][name_of(run)][environment] = clause["verdict"]
    for identifier, clause in record.registry.items():
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, by in said[identifier].items():
            verdicts = tuple(by.get(environment, "") for environment in found)
            # A report may be older than a clause.
            if clause.versions or len(set(verdicts) - {""}) > 1:
                alike[verdicts].append(name)
        for verdicts, names in alike.items():
            yield Difference(clause, names, verdicts)


def _failures(record: Record, found: Mapping[str, Sequence[Run]]) -> Iterator[Failure]:
    said: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for environment, runs in found.items():
        for run in runs:
            for identifier, clause in run.clauses.items():
                if clause["verdict"] in BROKEN and identifier in record.registry:
                    said[identifier, _message(clause)].append((name_of(run), environment))
    for (identifier, text), where in sorted(said.items()):
        names, environments = (list(dict.fromkeys(part)) for part in zip(*where, strict=True))
        yield Failure(record.registry[identifier], text, names, environments)


def _message(clause: Mapping[str, Any]) -> str:
    messages = [test["message"] for test in clause["tests"] if test["outcome"] in BROKEN and test["message"]]
    return str(messages[0][:LONGEST] if messages else clause["reason"] or "no message")


class NotRun(SphinxDirective):
    """Called once: what no report covers, with the reason and the date."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        self.env.note_dependency(str(NOT_RUN))
        entries = tomllib.loads(NOT_RUN.read_text("utf-8"))["not-run"] if NOT_RUN.exists() else []
        return [render("not-run.html", self.env.docname, entries=entries)]
