"""The margin of a clause: tests that assert it, planted bugs it caught, verdicts by environment and implementation."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes

from clause_pages.record import ENGINE, ROOT, Record
from clause_pages.suite import BROKEN, VERDICTS, SuiteTest, deciders, pages_of_specs
from clause_pages.template import render

#: A change of it makes the pages anew, as any file of the site's own does.
FIXES = Path(__file__).parents[1] / "fixes.toml"
_WORDS = {"pass": "holds", "": "not run yet", "skipped": "not run", "not-applicable": "not applicable here"}


def margin(record: Record, identifier: str, docname: str) -> nodes.raw:
    """A line of counts that opens to the names behind them."""
    return render("margin.html", docname, identifier=identifier, **facts(record, identifier))


def facts(record: Record, identifier: str) -> dict[str, Any]:
    """All that the margin says, which pages are compared by: one that would say the same is not read again."""
    reference = record.reference_verdict(identifier)
    published = [found["verdict"] for run, found in record.verdicts(identifier) if not run.about_reference]
    return {
        "reference": reference,
        "reference_words": _WORDS.get(reference, f"broken ({reference})"),
        "tests": [(test, _source(test), _modules(test)) for test in record.tests.get(identifier, ())],
        "bugs": record.bugs_of.get(identifier, ()),
        "kept": published.count("pass"),
        "broken": sum(verdict in BROKEN for verdict in published),
        "environments": list(_environments(record, identifier)),
        "published": list(_published(record, identifier)),
        "fix": fixes().get(identifier),
    }


@cache
def fixes() -> Mapping[str, Mapping[str, str]]:
    """The usual mistake against a clause and its fix, as code, by clause."""
    own = (page.get("fixes", {}) for page in pages_of_specs().values())
    return tomllib.loads(FIXES.read_text("utf-8")) | {clause: fix for each in own for clause, fix in each.items()}


def _source(test: SuiteTest) -> str:
    return f"source/{test.file.relative_to(ROOT).as_posix()}.html#L-{test.line}"


def _modules(test: SuiteTest) -> list[str]:
    """The modules of the kit that decide it, without the name of the package."""
    return [module.removeprefix("conformance.") for module in deciders(test)]


def _environments(record: Record, identifier: str) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """PyTorch and the reference: verdict, names and places, with those that fared alike together."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run, found in record.verdicts(identifier):
        if run.about_reference:
            name = "PyTorch itself" if run.implementation == ENGINE else run.name
            places[name, found["verdict"]].append(f"{run.environment} ({run.taken.date})")
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (name, verdict), where in places.items():
        groups[verdict, tuple(sorted(set(where)))].append(name)
    for verdict, where in sorted(groups, key=lambda group: (VERDICTS.index(group[0]), group[1])):
        yield verdict, groups[verdict, where], where


def _published(record: Record, identifier: str) -> Iterator[tuple[str, str]]:
    """Return all others: by name if the clause is broken, else by number."""
    names: dict[str, set[str]] = defaultdict(set)
    for run, found in record.verdicts(identifier):
        if not run.about_reference:
            names[found["verdict"]].add(record.published_name(run))
    for verdict in sorted(names, key=VERDICTS.index):
        yield verdict, ", ".join(sorted(names[verdict])) if verdict in BROKEN else str(len(names[verdict]))
