"""Mutants of the rooms of the kit that judge numbers, and which planted bug, right class or kernel shows each.

A mutant is one function with one small change, put in place of the original.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from conformance.prove.mutants import Mutant, mutants
from tests.proof import constants
from tests.proof.noticing import KILLED, Change, Noticed, Witness, noticed, of_contract
from tests.proof.on_device import run_on

KIT = Path(__file__).parents[2] / "conformance" / "kit"
ROOMS = ("numerics", "oracles")
#: The module of a function, and its name there.
Place = tuple[str, str]
#: One in so many mutants is asked: all of them take hours.
ONE_IN = 5


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: what noticed it, if anything."""

    mutant: Mutant
    noticed: Noticed


def all_mutants(only: str = "") -> list[Mutant]:
    """A share of the mutants of every function in the rooms; what stands outside of functions are constants."""
    files = [file for room in ROOMS for file in sorted((KIT / room).glob("[!_]*.py"))]
    found = (mutant for file in files for mutant in mutants(file) if only in mutant.name)
    return [one for one in found if one.change != "drop decorator" and _function(one)][::ONE_IN]


def fates(wanted: Sequence[Mutant], said: Callable[[object], None]) -> list[Fate]:
    """Hold every mutant against its witnesses."""
    every = [*of_contract(), *(Witness(one.name, one.judge) for one in constants.witnesses())]
    places = [(mutant, place) for mutant in wanted if (place := _function(mutant))]
    changes = [
        Change(frozenset({(str(mutant.file), mutant.line)}), partial(_put, mutant, place)) for mutant, place in places
    ]
    found = noticed(changes, every, said)
    return [Fate(mutant, one) for (mutant, _), one in zip(places, found, strict=True)]


def page(found: Sequence[Fate]) -> str:
    """The table of the site: how many mutants of each module are noticed, and of how many the process was killed."""
    by_module: dict[str, list[Fate]] = defaultdict(list)
    for fate in found:
        by_module[str(fate.mutant.file.relative_to(KIT))].append(fate)
    rows = [f"| `{module}` | {len(own)} | {_seen(own)} | {_killed(own)} |" for module, own in by_module.items()]
    summary = (
        f"{run_on('cpu')} {_seen(found)} of {len(found)} are noticed: of {_killed(found)} the process was killed, for "
        "it crashed or took ten times as long."
    )
    return "\n".join([summary, "", "| module | changes | noticed | killed |", "|---|---|---|---|", *rows]) + "\n"


def _seen(fates: Sequence[Fate]) -> int:
    return sum(bool(fate.noticed.by) for fate in fates)


def _killed(fates: Sequence[Fate]) -> int:
    return sum(fate.noticed.by == KILLED for fate in fates)


def _put(mutant: Mutant, place: Place) -> None:
    """Put a mutant in the place of the function."""
    _live(*place).__code__ = _code(compile(mutant.source, str(mutant.file), "exec"), place[1].split("."))


def _function(mutant: Mutant) -> Place | None:
    """The module of a mutant, and the outermost function that it is in; None for what is in none."""
    module = ".".join(("conformance", "kit", *mutant.file.relative_to(KIT).with_suffix("").parts))
    place: Any = importlib.import_module(module)
    names = mutant.function.split(".")
    for depth, name in enumerate(names, 1):
        place = _plain(inspect.getattr_static(place, name, None))
        if isinstance(place, FunctionType):
            return module, ".".join(names[:depth])
    return None


def _live(module: str, name: str) -> FunctionType:
    """Return a function of a loaded module, by its place."""
    place: Any = sys.modules[module]
    for part in name.split("."):
        place = _plain(inspect.getattr_static(place, part))
    assert isinstance(place, FunctionType)
    return place


def _plain(found: Any) -> Any:
    """The function itself, without what a decorator made of it."""
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, cached_property):
        found = found.func
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return found if isinstance(found, type) else inspect.unwrap(found) if callable(found) else found


def _code(code: CodeType, names: Sequence[str]) -> CodeType:
    """The code of a function, by its names from the outside in."""
    for name in names:
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)
    return code
