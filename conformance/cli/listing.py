"""``conformance list`` and ``conformance explain``: the registry and the suite, shown without torch or pytest."""

from __future__ import annotations

import difflib
import shutil
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path

from conformance.core import catalog, clauses
from conformance.core.clauses import Clause
from conformance.core.deciders import deciders
from conformance.core.errors import UsageError
from conformance.core.homes import OURS, NoSuchSpec
from conformance.core.output import say, say_data
from conformance.core.prose import counted, prose
from conformance.core.sources import by_words

EXPLAIN = "`conformance explain CLAUSE` shows a clause in full, with its tests"
_LONGEST = 100  # characters of a name that are compared


def as_data(clause: Clause) -> dict[str, object]:
    """Return a clause as plain data, for ``--json`` and for the docs' clauses.json."""
    tests = catalog.tests_of(clause.id, clause.spec)
    return {
        "id": clause.id,
        "party": clause.party,
        "level": clause.level,
        "spec": clause.spec,
        "object": clause.object,
        "text": clause.text,
        "text_sha256": clauses.text_hash(clause),
        "sources": [asdict(source) for source in clause.sources],
        "versions": clause.versions,
        "source": _place(clause),
        "tests": [f"{test.file.name}::{test.function}" for test in tests],
        "decided_by": sorted({module for test in tests for module in deciders(test)}),
    }


def show_list(as_json: bool, spec: str | None = None) -> int:
    """Print all clauses of this project, or those of one spec, as a table or as JSON.

    Raises:
        UsageError: there is no such spec, or its clauses cannot be read.
    """
    every = clauses.registry(*filter(None, [spec])).values()
    some = [clause for clause in every if spec in {None, clause.spec}]
    if as_json:
        say_data([as_data(clause) for clause in some])
        return 0
    _table(some)
    say(f"\n{counted(len(some), 'clause')}; {EXPLAIN}")
    return 0


def _table(some: Collection[Clause]) -> None:
    """Print a line for each clause, under its spec."""
    order = list(dict.fromkeys(clause.spec for clause in some))
    every = sorted(some, key=lambda clause: order.index(clause.spec))
    width = shutil.get_terminal_size((100, 24)).columns
    longest = max(len(clause.id) for clause in every)
    spec = ""
    for clause in every:
        if clause.spec != spec:
            spec = clause.spec
            say(f"\n{spec}")
        head = f"  {clause.id:<{longest}}  {clause.level:<7} {clause.party:<8}"
        room = width - len(head) - 1
        text = textwrap.shorten(prose(clause.text), room, placeholder="...") if room >= 20 else ""
        say(f"{head} {text}".rstrip())


def explain(words: str) -> int:
    """Print everything about one clause, or a line for each clause of a part of the specification.

    Args:
        words: the id of a clause, its first parts, such as ``Function.backward``, or a piece of it.

    Raises:
        UsageError: there is no such clause; the nearest one is named.
    """
    found = matching(words)
    if not found:
        near = _nearest(words)
        hint = f"did you mean {near}?" if near else "`conformance list` shows them all"
        raise UsageError(f"no clause {words[:_LONGEST]!r}; {hint}")
    if len(found) == 1:
        return _in_full(found[0])
    _table(found)
    say(f"\n{len(found)} clauses under {words!r}; {EXPLAIN}")
    return 0


def matching(words: str) -> list[Clause]:
    """Find clauses by their id, or else by the first parts of their ids, or else by any part of an id.

    A spec from outside is meant by its own name, as the first part.
    """
    try:
        return _matching(words, clauses.registry()) or _matching(words, clauses.registry(words.partition(".")[0]))
    except NoSuchSpec:
        return []


def _matching(words: str, registry: Mapping[str, Clause]) -> list[Clause]:
    if words in registry:
        return [registry[words]]
    meant = words.strip(". *").lower()
    under = [clause for name, clause in registry.items() if f"{name.lower()}.".startswith(f"{meant}.")]
    return under or [clause for name, clause in registry.items() if meant and meant in name.lower()]


def _nearest(words: str) -> str:
    """Return the clause, or part of the specification, with the most similar name; empty if none is similar."""
    names = [
        ".".join(parts[:count]) for parts in (name.split(".") for name in clauses.registry()) for count in (3, 2, 1)
    ]
    by_letters = {name.lower(): name for name in names}
    near = difflib.get_close_matches(words[:_LONGEST].lower(), by_letters, 1, 0.7)
    return by_letters[near[0]] if near else ""


def _in_full(clause: Clause) -> int:
    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    say(f"{clause.id}   {clause.level}, for {_who(clause)} to keep\n")
    say(textwrap.fill(prose(clause.text), width, initial_indent="  ", subsequent_indent="  "))
    said = [
        "; ".join(source.title for source in alike) + (f': "{words}"' if words else "")
        for words, alike in by_words(clause.sources)
    ]
    rows = [("" if number else "sources", line) for number, line in enumerate(said)]
    rows += [("spec", clause.spec), ("documented", f"{clause.object}, {_place(clause)}")]
    rows += [("versions", clause.versions)] if clause.versions else []
    say("")
    for name, value in rows:
        say(textwrap.fill(value, width, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13))
    tests = catalog.tests_of(clause.id, clause.spec)
    say(f"\n  {counted(len(tests), 'test')}")
    for test in tests:
        say(f"    {test.file.name}:{test.line} {test.function}")
        say(textwrap.fill(test.doc.split("\n\n")[0], width, initial_indent=" " * 6, subsequent_indent=" " * 6))
        if modules := deciders(test):
            by = f"decided by {', '.join(module.removeprefix('conformance.') for module in modules)}"
            say(textwrap.fill(by, width, initial_indent=" " * 6, subsequent_indent=" " * 8, break_on_hyphens=False))
    return 0


def _who(clause: Clause) -> str:
    return "PyTorch" if clause.party == "engine" else "the Function's author"


def _place(clause: Clause) -> str:
    module = clause.module.replace(".", "/")
    return f"{module}{'/__init__' if Path(clause.file).name == OURS else ''}.py:{clause.line}"
