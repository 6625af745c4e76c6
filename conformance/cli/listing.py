"""``conformance list`` and ``conformance explain``: the registry and the suite, shown without torch or pytest."""

from __future__ import annotations

import difflib
import json
import shutil
import sys
import textwrap
from dataclasses import asdict

from conformance.core import catalog, clauses
from conformance.core.clauses import Clause
from conformance.core.errors import UsageError
from conformance.core.prose import prose
from conformance.core.sources import by_words


def as_data(clause: Clause) -> dict[str, object]:
    """One clause as plain data, for ``--json`` and for the docs' clauses.json."""
    return {
        "id": clause.id,
        "party": clause.party,
        "level": clause.level,
        "spec": clause.spec,
        "object": clause.object,
        "text": clause.text,
        "text_sha256": clauses.text_hash(clause),
        "sources": [{**asdict(source), "url": source.url} for source in clause.sources],
        "versions": clause.versions,
        "source": _place(clause),
        "tests": [f"{test.file.name}::{test.function}" for test in catalog.suite() if test.clause == clause.id],
    }


def show_list(as_json: bool) -> int:
    """Print every clause, as a table or as JSON."""
    registry = clauses.registry()
    if as_json:
        json.dump([as_data(clause) for clause in registry.values()], sys.stdout, indent=1)
        print()
        return 0
    width = shutil.get_terminal_size((100, 24)).columns
    longest = max(len(name) for name in registry)
    spec = ""
    for clause in sorted(registry.values(), key=lambda clause: clauses.specs().index(clause.spec)):
        if clause.spec != spec:
            spec = clause.spec
            print(f"\n{spec}")
        head = f"  {clause.id:<{longest}}  {clause.level:<7} {clause.party:<8}"
        room = width - len(head) - 1
        text = textwrap.shorten(prose(clause.text), room, placeholder="...") if room >= 20 else ""
        print(f"{head} {text}".rstrip())
    print(f"\n{len(registry)} clauses; `conformance explain CLAUSE` tells more of one")
    return 0


def explain(identifier: str) -> int:
    """Print everything about one clause.

    Raises:
        UsageError: there is no such clause; the nearest ids are named.
    """
    registry = clauses.registry()
    clause = registry.get(identifier)
    if clause is None:
        near = (
            difflib.get_close_matches(identifier, registry, 3, 0.5)
            or [name for name in registry if identifier.lower() in name.lower()][:3]
        )
        hint = f"did you mean {' or '.join(near)}?" if near else "`conformance list` shows them all"
        raise UsageError(f"no clause {identifier!r}; {hint}")
    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    print(f"{clause.id}   {clause.level}, owed by {_who(clause)}\n")
    print(textwrap.fill(prose(clause.text), width, initial_indent="  ", subsequent_indent="  "))
    said = [
        "; ".join(source.title for source in alike) + (f': "{words}"' if words else "")
        for words, alike in by_words(clause.sources)
    ]
    rows = [("" if number else "sources", line) for number, line in enumerate(said)]
    rows += [("spec", clause.spec), ("documented", f"{clause.object}, {_place(clause)}")]
    rows += [("versions", clause.versions)] if clause.versions else []
    print()
    for name, value in rows:
        print(textwrap.fill(value, width, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13))
    tests = catalog.about(identifier)
    print(f"\n  {len(tests)} test{'s' if len(tests) != 1 else ''}")
    for test in tests:
        print(f"    {test.file.name}:{test.line} {test.function}")
        print(textwrap.fill(test.doc.split("\n\n")[0], width, initial_indent=" " * 6, subsequent_indent=" " * 6))
    return 0


def _who(clause: Clause) -> str:
    return "PyTorch" if clause.party == "engine" else "whoever writes the Function"


def _place(clause: Clause) -> str:
    return f"{clause.module.replace('.', '/')}.py:{clause.line}"
