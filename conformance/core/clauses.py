"""The clauses by id: those of ``spec_impl``, and of a specification from outside that is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from conformance.core.docstrings import LEVELS, PARTIES, Clause, ClauseError, Level, Party, read, used_before
from conformance.core.homes import OURS, Home, outside, spec_impl

__all__ = [
    "CONTRACT",
    "LEVELS",
    "PARTIES",
    "Clause",
    "ClauseError",
    "Level",
    "Party",
    "digest",
    "digest_of",
    "read",
    "registry",
    "text_hash",
]

#: The spec that every Function keeps, whatever other spec it is checked against.
CONTRACT = "Function"


def registry(*named: str) -> Mapping[str, Clause]:
    """Return all clauses of the installed ``spec_impl`` by id, in the order of its sources; then those of other specs.

    Args:
        *named: specs, of which those from outside are added.

    Raises:
        UsageError: a spec is not installed, or its clauses cannot be read.
    """
    return _registry(*outside(named))


@cache
def _registry(*others: Home) -> Mapping[str, Clause]:
    found = {clause.id: clause for clause in _ours()}
    for home in others:
        for clause in _of_home(home):
            if clause.id in found:
                raise used_before(clause, found[clause.id])
            found[clause.id] = clause
    return MappingProxyType(found)


@cache
def _ours() -> tuple[Clause, ...]:
    return read(spec_impl()[0], "", "*.py", f"*/{OURS}")


def _of_home(home: Home) -> tuple[Clause, ...]:
    """Read the clauses of a specification from outside, whose reference is one module."""
    clauses = read(home.folder, home.package, home.reference)
    if {clause.spec for clause in clauses} != {home.name}:
        where = str(home.folder / home.reference)
        raise ClauseError(where, 1, "", f"it must hold clauses, and say SPEC = {home.name!r}, as its entry point does")
    return tuple(replace(clause, site=home.page) for clause in clauses)


def digest(*named: str) -> str:
    """Return the SHA-256 of all clauses: it changes if an id, a party, a level or a text does.

    Args:
        *named: specs, of which those from outside are added: what is installed beside the suite changes nothing.
    """
    return digest_of(registry(*named).values())


def digest_of(some: Iterable[Clause]) -> str:
    """Return the SHA-256 of some clauses."""
    rows = sorted([clause.id, clause.party, clause.level, clause.text] for clause in some)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def text_hash(clause: Clause) -> str:
    """Return twelve hexadecimal digits that change if the text of the clause does."""
    return hashlib.sha256(clause.text.encode()).hexdigest()[:12]
