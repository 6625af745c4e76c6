"""``.. published::``, ``.. published-collectives::`` and ``.. package::``: what became of other people's Functions.

Everything is read from ``docs/data/published.json``. Each package has a page, which is written before Sphinx looks for
pages; ``docs/failures`` holds what was written by hand: a note for a package, and scripts that show a failure.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import DOCS, PUBLISHED, Record
from clause_pages.runs import Taken, taken
from clause_pages.suite import SUBJECT_VERDICTS, Clause, badge_of
from clause_pages.template import render

NOTES = DOCS / "failures"
SCRIPTS = NOTES / "scripts.toml"
PAGES = DOCS / "published"
LONGEST = 1500
WEIGHTS = ("must", "lesser", "note")
PAGE = """\
---
orphan: true
---
# {name}: do its autograd Functions conform?

```{{package}} {name}
```
"""
NOTE = """
## What was found

```{{include}} ../failures/{name}.md
```
"""


def setup(app: Sphinx) -> None:
    """Add the directives; write the pages of the packages before Sphinx looks for pages."""
    app.add_directive("published", Published)
    app.add_directive("published-collectives", Collectives)
    app.add_directive("package", OnePackage)
    app.connect("builder-inited", _write_pages, priority=200)
    app.connect("build-finished", _write_badges)


@dataclass(frozen=True)
class Finding:
    """A clause that a class breaks."""

    clause: Clause | None
    id: str
    level: str
    verdict: str
    message: str

    @property
    def weight(self) -> str:
        """Its weight: a broken must, a broken lesser clause, or a note, which changes no verdict."""
        return {"must": "must", "may": "note"}.get(self.level, "lesser")


@dataclass(frozen=True)
class Class:
    """A class or function of a package, under one spec."""

    name: str
    version: str
    spec: str
    verdict: str
    kept: int
    not_applicable: int
    findings: Sequence[Finding]
    scripts: Sequence[str]
    anchor: str
    #: The SPMD types that a collective claims.
    types: str = ""

    @property
    def must(self) -> int:
        """How many musts are broken."""
        return self._count("must")

    @property
    def lesser(self) -> int:
        """How many other clauses are broken."""
        return self._count("lesser")

    def _count(self, weight: str) -> int:
        return sum(finding.weight == weight for finding in self.findings)


@dataclass(frozen=True)
class Package:
    """A package with its classes."""

    name: str
    classes: Sequence[Class]
    taken: Sequence[Taken]

    @cached_property
    def counts(self) -> Counter[str]:
        """How many of its classes got each verdict."""
        return Counter(one.verdict for one in self.classes)

    @property
    def verdict(self) -> str:
        """The worst verdict of its newest release: that is what its badge says."""
        newest = self.classes[-1].version
        return min((one.verdict for one in self.classes if one.version == newest), key=SUBJECT_VERDICTS.index)

    @property
    def versions(self) -> str:
        """The releases that were run."""
        return ", ".join(dict.fromkeys(one.version for one in self.classes if one.version))


class Published(SphinxDirective):
    """Called once: a table of all packages, whose rows open to their classes."""

    def run(self) -> list[nodes.Node]:
        """Make the filters and the table."""
        found = _packages(self)
        broken = sorted({finding.id for package in found for one in package.classes for finding in one.findings})
        specs = sorted({one.spec for package in found for one in package.classes})
        return [render("published.html", self.env.docname, packages=found, broken=broken, specs=specs)]


class Collectives(SphinxDirective):
    """Called once: a table of all Functions that communicate, with the types that they claim."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        found = [(package, one) for package in _packages(self) for one in package.classes if one.types]
        return [render("collectives.html", self.env.docname, found=found)]


class OnePackage(SphinxDirective):
    """Called on the page of a package: its badge and its classes."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        (package,) = (one for one in _packages(self) if one.name == self.arguments[0])
        return [render("package.html", self.env.docname, package=package)]


def packages(record: Record) -> list[Package]:
    """The packages in the order of the data, each with its classes."""
    scripts = tomllib.loads(SCRIPTS.read_text("utf-8"))
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in record.published:
        rows.setdefault(row["package"], []).append(row)
    return [
        Package(name, [_class(record, row, number, scripts) for number, row in enumerate(own)], taken(own))
        for name, own in rows.items()
    ]


def _packages(directive: SphinxDirective) -> list[Package]:
    for path in (PUBLISHED, SCRIPTS):
        directive.env.note_dependency(str(path))
    return packages(directive.env.app.clause_record)  # type: ignore[attr-defined]


def _class(record: Record, row: Mapping[str, Any], number: int, scripts: Mapping[str, Sequence[str]]) -> Class:
    known = " ".join(filter(None, (row["package"], row["version"], row["subject"])))
    return Class(
        name=row["subject"],
        version=row["version"],
        spec=row["spec"],
        verdict=row["verdict"],
        kept=row["kept"],
        not_applicable=row["not_applicable"],
        findings=sorted(
            (_finding(record, found) for found in row["findings"]), key=lambda found: WEIGHTS.index(found.weight)
        ),
        scripts=[file for file, names in scripts.items() if {known, f"{known} {row['spec']}"} & set(names)],
        anchor=f"{row['package']}-{row['subject']}-{row['spec']}-{number}",
        types=row.get("types", ""),
    )


def _finding(record: Record, found: Mapping[str, Any]) -> Finding:
    clause = record.registry.get(found["clause"])
    return Finding(clause, found["clause"], found["level"], found["verdict"], found["message"][:LONGEST])


def _write_pages(app: Sphinx) -> None:
    PAGES.mkdir(exist_ok=True)
    names = dict.fromkeys(row["package"] for row in app.clause_record.published)  # type: ignore[attr-defined]
    wanted = {PAGES / f"{name}.md": text for name, text in _texts(names)}
    for path in set(PAGES.glob("*.md")) - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def _texts(names: Mapping[str, None]) -> Iterator[tuple[str, str]]:
    for name in names:
        note = NOTE if (NOTES / f"{name}.md").exists() else ""
        yield name, (PAGE + note).format(name=name)


def _write_badges(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    folder = app.outdir / "badges"
    folder.mkdir(exist_ok=True)
    for package in packages(app.clause_record):  # type: ignore[attr-defined]
        (folder / f"{package.name}.svg").write_text(badge_of(package.verdict), "utf-8")
