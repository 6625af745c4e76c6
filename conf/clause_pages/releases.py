"""``.. releases::``, ``.. departures::``, ``.. release-members::``: what differs from one PyTorch to the next.

Verdicts come from the committed reports, the rest from ``docs/data/release-VERSION.json``, which ``conf/releases.py``
writes.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from docutils import nodes
from packaging.version import Version
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clause_pages.record import DOCS, ENGINE, ROOT, Run, record_of
from clause_pages.results import by_environment
from clause_pages.runs import Taken
from clause_pages.template import render

_State = TypeVar("_State")
DEPARTURES = sorted((ROOT / "conf" / "departures").glob("[!_]*.py"))


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("releases", Releases)
    app.add_directive("departures", Departures)
    app.add_directive("release-members", Members)


@dataclass(frozen=True)
class Release:
    """One row of the summary: how PyTorch and the reference fared in an environment."""

    environment: str
    engine_kept: int
    engine_asked: int
    conforming: int
    classes: int
    taken: Taken
    file: str


class _FromReleases(SphinxDirective):
    def asked(self) -> Mapping[str, Mapping[str, Any]]:
        """The answers of each release, the oldest first."""
        paths = sorted((DOCS / "data").glob("release-*.json"), key=lambda path: Version(path.stem.partition("-")[2]))
        for path in (*paths, *DEPARTURES):
            self.env.note_dependency(str(path))
        return {path.stem.partition("-")[2]: json.loads(path.read_text("utf-8")) for path in paths}


class Releases(SphinxDirective):
    """Called once: a row for every environment that was run."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        found = by_environment(record_of(self, reports=True).runs)
        rows = [_release(environment, runs) for environment, runs in found.items()]
        return [render("releases.html", self.env.docname, releases=rows)]


class Departures(_FromReleases):
    """Called once: what ``conf/departures`` asks, by its docstrings, and which releases do it."""

    def run(self) -> list[nodes.Node]:
        """Make the table; a docstring is Markdown, as the page is."""
        asked = self.asked()
        rows = []
        for function in itertools.chain(*(ast.parse(path.read_text("utf-8")).body for path in DEPARTURES)):
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                where, _, what = (ast.get_docstring(function) or "").partition("\n\n")
                shown = [data["departures"].get(function.name) for data in asked.values()]
                rows.append(f"| {where} | {' '.join(what.split())} | {_seen(list(asked), shown)} |")
        when = "; ".join(f"{name} ({data['machine']['date']})" for name, data in asked.items())
        rows += ["", f"Run by `python conf/releases.py` on {when}."]
        return self.parse_text_to_nodes("\n".join(["| where | what was seen | in releases |", "|---|---|---|", *rows]))


class Members(_FromReleases):
    """Called where public members are listed that differ: between all releases, or the two that are named."""

    optional_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        asked = {name: data for name, data in self.asked().items() if name in self.arguments or not self.arguments}
        changed: dict[tuple[str, Sequence[str]], list[str]] = defaultdict(list)
        for owner in next(iter(asked.values()))["members"] if asked else ():
            members = [data["members"][owner] for data in asked.values()]
            for name in sorted(set().union(*members)):
                states = tuple(found.get(name, "") for found in members)
                if len(set(states)) > 1:
                    changed[name, states].append(owner)
        rows = [
            (name, owners, [(when, _code(state)) for when, state in _runs(list(asked), states)])
            for (name, states), owners in sorted(changed.items())
        ]
        return [render("release-members.html", self.env.docname, rows=rows)]


def _release(environment: str, runs: Sequence[Run]) -> Release:
    engine = [clause["verdict"] for run in runs if run.implementation == ENGINE for clause in run.clauses.values()]
    classes = [run.verdict for run in runs if run.implementation != ENGINE]
    asked = len(engine) - engine.count("not-applicable")
    kept, conforming = engine.count("pass"), classes.count("conforms")
    return Release(environment, kept, asked, conforming, len(classes), runs[0].taken, runs[0].file)


def _seen(releases: Sequence[str], shown: Sequence[bool | None]) -> str:
    """Name the releases in which it was seen, and those that were run before this departure was known."""
    found = list(_runs(releases, shown))
    seen = ", ".join(when for when, state in found if state) or "none of these"
    unasked = ", ".join(when for when, state in found if state is None)
    return f"{seen}; not tested: {unasked}" if unasked else seen


def _runs(releases: Sequence[str], states: Sequence[_State]) -> Iterator[tuple[str, _State]]:
    """Neighbouring releases of the same state, joined and in words."""
    for state, group in itertools.groupby(zip(releases, states, strict=True), key=lambda pair: pair[1]):
        members = [release for release, _ in group]
        yield members[0] if len(members) == 1 else f"{members[0]} to {members[-1]}", state


def _code(state: str) -> str:
    kind, bracket, rest = state.partition(" (")
    return f"{kind} ``({rest}``" if bracket else kind or "absent"
