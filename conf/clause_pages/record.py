"""The record of each clause: its tests, the planted bugs it caught, and its verdicts in the committed reports."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.version import Version
from sphinx.util.docutils import SphinxDirective, SphinxRole

from clause_pages.runs import Taken
from clause_pages.suite import VERDICTS, Clause, SuiteTest, catalog, clauses

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGINE = "PyTorch"
REFERENCE = "spec_impl."
PUBLISHED = DOCS / "data" / "published.json"


@dataclass(frozen=True)
class Bug:
    """A planted bug, as the kill matrix has it."""

    implementation: str
    text: str
    breaks: str
    also: tuple[str, ...]
    caught: bool
    #: The largest world that it took to catch it.
    ranks: int

    @property
    def name(self) -> str:
        """The name of its class or function."""
        return self.implementation.partition(":")[2]


@dataclass(frozen=True)
class Run:
    """One part of a report: an implementation, or the engine, in an environment."""

    implementation: str
    spec: str
    environment: str
    verdict: str
    taken: Taken
    clauses: Mapping[str, Mapping[str, Any]]
    #: The report, as the site publishes it.
    file: str = ""

    @property
    def about_reference(self) -> bool:
        """Whether it is the reference, or PyTorch itself, that was checked."""
        return self.implementation == ENGINE or self.implementation.startswith(REFERENCE)

    @property
    def name(self) -> str:
        """The name of its class or function."""
        return self.implementation.partition(":")[2] or self.implementation


@dataclass(frozen=True)
class Record:
    """Everything that the pages say beside the clauses."""

    registry: Mapping[str, Clause]
    tests: Mapping[str, Sequence[SuiteTest]]
    bugs: Sequence[Bug]
    correct: Sequence[str]
    #: Those of the correct implementations that a test accuses.
    accused: Sequence[str]
    runs: Sequence[Run]
    mutants: Mapping[str, Any]
    #: What PyTorch's own checks say of the planted bugs.
    peers: Mapping[str, Any]
    #: What came of each bug's script, with torch alone.
    scripts: Sequence[Mapping[str, Any]]
    #: The findings of ``conformance scan`` that somebody judged, and the packages they are from.
    scanned: Mapping[str, Any]
    #: A row for each class of a published package, as ``docs/data/published.json`` has it.
    published: Sequence[Mapping[str, Any]]
    #: The files it was read from: data of the proof and of published packages, and reports.
    data: Sequence[Path] = field(default=())
    reports: Sequence[Path] = field(default=())

    @cached_property
    def clauses(self) -> Sequence[Clause]:
        """Every clause as tables list them: the contract first, since every other spec adds to it."""
        return sorted(self.registry.values(), key=lambda clause: clause.spec != "Function")

    @cached_property
    def bugs_of(self) -> Mapping[str, Sequence[Bug]]:
        """The planted bugs that a clause caught, by clause."""
        found: dict[str, list[Bug]] = defaultdict(list)
        for bug in self.bugs:
            if bug.caught:
                found[bug.breaks].append(bug)
        return found

    def verdicts(self, identifier: str) -> Iterator[tuple[Run, Mapping[str, Any]]]:
        """Where a clause was judged, and what came of it."""
        for run in self.runs:
            if identifier in run.clauses:
                yield run, run.clauses[identifier]

    def reference_verdict(self, identifier: str) -> str:
        """The worst verdict on a clause that the reference or PyTorch got anywhere; empty if it was not judged."""
        verdicts = {found["verdict"] for run, found in self.verdicts(identifier) if run.about_reference}
        return min(verdicts, key=VERDICTS.index, default="")

    def published_name(self, run: Run) -> str:
        """The name of a published class: package, version and class."""
        row = self._row_of.get((run.implementation, run.spec))
        return " ".join(filter(None, (row[key] for key in ("package", "version", "subject")))) if row else run.name

    @cached_property
    def _row_of(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        return {(row["reference"], row["spec"]): row for row in reversed(self.published)}


def record_of(directive: SphinxDirective | SphinxRole, *, reports: bool) -> Record:
    """The record, for a page that must be read again when the data or a report change."""
    record: Record = directive.env.app.clause_record  # type: ignore[attr-defined]
    for path in (*record.data, *(record.reports if reports else ())):
        directive.env.note_dependency(str(path))
    return record


def release_of(environment: str) -> Version:
    """The PyTorch of an environment, as a run names it, without its build."""
    return Version(Version(environment.split()[1].strip(",")).public)


def read() -> Record:
    """Read all of it from the checkout."""
    tests: dict[str, list[SuiteTest]] = defaultdict(list)
    for test in catalog.suite():
        tests[test.clause].append(test)
    files = ("kill-matrix", "mutants", "peers", "scripts", "scan-sample", "simulated", "pytorch")
    paths = [DOCS / "data" / f"{name}.json" for name in files]
    matrix, mutants, peers, scripts, scanned, *_ = paths
    rows = _json(matrix).get("rows", ())
    reports = {path: _json(path) for path in sorted((DOCS / "results").rglob("*.json"))}
    reports = {path: data for path, data in reports.items() if {"environment", "engine", "subjects"} <= data.keys()}
    bugs = [_bug(row) for row in rows if row["breaks"]]
    registry = clauses.registry()
    good = {row["implementation"]: row["broken"] for row in rows if not row["breaks"]}
    # What becomes of a clause of level may accuses nobody.
    accused = [name for name, broken in good.items() if any(registry[clause].level != "may" for clause in broken)]
    runs = [run for path, report in reports.items() for run in _runs(report, path.relative_to(DOCS).as_posix())]
    data = [path for path in (*paths, PUBLISHED) if path.exists()]
    published = _json(PUBLISHED).get("subjects", ())
    return Record(
        registry=registry,
        tests=tests,
        bugs=bugs,
        correct=list(good),
        accused=accused,
        runs=runs,
        mutants=_json(mutants),
        peers=_json(peers),
        scripts=_json(scripts).get("rows", ()),
        scanned=_json(scanned),
        published=published,
        data=data,
        reports=list(reports),
    )


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _bug(row: Mapping[str, Any]) -> Bug:
    return Bug(
        implementation=row["implementation"],
        text=row["text"],
        breaks=row["breaks"],
        also=tuple(row["also"]),
        caught=bool(row["caught"]),
        ranks=row.get("ranks", 0),
    )


def _runs(data: Mapping[str, Any], file: str) -> Iterator[Run]:
    around = data["environment"]
    environment = f"PyTorch {around['torch']}, {around['backend']}, {around['device']}"
    taken = Taken.of(data["machine"])
    if data["engine"]:
        found = {clause["id"]: clause for clause in data["engine"]}
        yield Run(ENGINE, "Function", environment, "", taken, found, file)
    for part in data["subjects"]:
        found = {clause["id"]: clause for clause in part["clauses"]}
        yield Run(part["subject"], part["spec"], environment, part["verdict"], taken, found, file)
