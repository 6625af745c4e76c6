"""Mutants of the rooms of the kit that judge numbers, and which planted bug, right class or kernel shows each.

A mutant is one function with one small change, put in place of the original in a forked process. It is held against the
tests that call the function; one that ends otherwise than before has noticed it.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch

from conformance.core import catalog, clauses
from conformance.core.plan import PlannedTest, SubjectRef, plan
from conformance.kit.loading import resolve
from conformance.prove.implementations import Implementation
from conformance.prove.mutants import Mutant, mutants
from conformance.run.in_process import in_process
from tests.proof import constants
from tests.proof.implementations import of_the_contract
from tests.proof.matrix import broken_beside
from tests.proof.on_device import run_on

KIT = Path(__file__).parents[2] / "conformance" / "kit"
ROOMS = ("numerics", "oracles")
#: One in so many mutants is asked: all of them take hours.
ONE_IN = 5
#: Processes side by side.
WORKERS = os.cpu_count() or 2
#: The tests that a mutant is held against take so long at most (seconds), and as many times as long with it.
MOST, SLOWER = 6.0, 10
#: What a process needs besides, of processor time and waiting (seconds).
BESIDES, WAITING = 10, 900
#: What noticed a mutant whose process was killed: by a signal, or since it took too long.
KILLED = "its process was killed"


@dataclass(frozen=True)
class Witness:
    """A test that shows a mutant if it ends in another way: of a planted bug, a right class or a kernel."""

    name: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Known:
    """How a witness ends with the kit as it is, the functions that it calls, and its seconds."""

    ended: str
    calls: frozenset[tuple[str, str]]
    seconds: float


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: the witness that noticed it, or nothing."""

    mutant: Mutant
    noticed_by: str
    #: How many witnesses call the function.
    asked: int


def all_mutants(only: str = "") -> list[Mutant]:
    """A share of the mutants of every function in the rooms; what stands outside of functions are constants."""
    files = [file for room in ROOMS for file in sorted((KIT / room).glob("[!_]*.py"))]
    found = (mutant for file in files for mutant in mutants(file) if only in mutant.name)
    return [one for one in found if one.change != "drop decorator" and _function(one)][::ONE_IN]


def fates(wanted: Sequence[Mutant], said: Callable[[object], None]) -> list[Fate]:
    """Hold every mutant against its witnesses, in processes of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    every = [*_of_contract(), *(Witness(one.name, one.judge) for one in constants.witnesses())]
    functions = {_function(mutant) for mutant in wanted}
    parts = [every[first::WORKERS] for first in range(WORKERS)]
    known: dict[str, Known] = {}
    for found in _forked([partial(_known, part, functions) for part in parts], 3600):
        if found is None:
            raise RuntimeError("a process was killed that ran the tests with the kit as it is")
        known |= found
        said(found)
    callers: dict[tuple[str, str] | None, list[str]] = defaultdict(list)
    for name, one in known.items():
        for function in one.calls:
            callers[function].append(name)
    by_name = {witness.name: witness for witness in every}
    asked = [[by_name[name] for name in _few(mutant, callers[_function(mutant)], known)] for mutant in wanted]
    jobs = [partial(_noticed, mutant, few, known) for mutant, few in zip(wanted, asked, strict=True)]
    results = []
    for mutant, few, found in zip(wanted, asked, _forked(jobs, WAITING), strict=True):
        results.append(Fate(mutant, KILLED if found is None else found, len(few)))
        said(found)
    return results


def page(found: Sequence[Fate]) -> str:
    """The table of the site: how many mutants of each module are noticed."""
    by_module: dict[str, list[Fate]] = defaultdict(list)
    for fate in found:
        by_module[str(fate.mutant.file.relative_to(KIT))].append(fate)
    rows = [
        f"| `{module}` | {len(own)} | {sum(bool(fate.noticed_by) for fate in own)} |"
        for module, own in by_module.items()
    ]
    noticed = sum(bool(fate.noticed_by) for fate in found)
    summary = f"{run_on('cpu')} {noticed} of {len(found)} are noticed."
    return "\n".join([summary, "", "| module | changes | noticed |", "|---|---|---|", *rows]) + "\n"


def _few(mutant: Mutant, callers: Iterable[str], known: Mapping[str, Known]) -> list[str]:
    """Take those that call most of the mutant's module, as many as fit into the time, and one at least."""
    module = (_function(mutant) or ("",))[0]

    def place(name: str) -> tuple[int, float]:
        return -sum(one[0] == module for one in known[name].calls), known[name].seconds

    few: list[str] = []
    spent = 0.0
    for name in sorted(callers, key=place):
        spent += known[name].seconds
        if few and spent > MOST:
            break
        few.append(name)
    return few


def _of_contract() -> Iterator[Witness]:
    """The tests of each bug's own clause, and of a right class those of the clauses that its neighbours break."""
    tests, registry = catalog.suite(), clauses.registry()
    for one in of_the_contract():
        subject = SubjectRef(one.reference, one.spec, one.inputs, one.reference, types=one.types)
        asked = {one.breaks} if one.breaks else broken_beside(one)
        for item in plan(tests, registry, [subject], (1,)):
            test = item.test
            is_plain = item.subject and one.device == "cpu" and not (item.why_not or test.compiles or test.is_fresh)
            if is_plain and test.clause in asked:
                yield Witness(item.nodeid, partial(_ended, one, item))


def _ended(one: Implementation, item: PlannedTest) -> str:
    (outcome,) = in_process([item], resolve(one.reference, one.spec, one.inputs, one.types), "cpu")
    return outcome.outcome


def _known(witnesses: Sequence[Witness], functions: Iterable[tuple[str, str] | None]) -> dict[str, Known]:
    """Run witnesses with the kit as it is, and note which of the functions they call."""
    places = {_live(*function).__code__: function for function in functions if function}
    found = {}
    for witness in witnesses:
        called: set[CodeType] = set()

        def note(frame: Any, event: str, _: object, called: set[CodeType] = called) -> None:
            if event == "call":
                called.add(frame.f_code)

        start = time.process_time()
        sys.setprofile(note)
        try:
            ended = witness.run()
        finally:
            sys.setprofile(None)
        seconds = time.process_time() - start
        found[witness.name] = Known(ended, frozenset(places[code] for code in called if code in places), seconds)
    return found


def _noticed(mutant: Mutant, witnesses: Sequence[Witness], known: Mapping[str, Known]) -> str:
    """The first witness that ends otherwise with a mutant in place; empty if none does."""
    function = _function(mutant)
    assert function
    longest = SLOWER * sum(known[witness.name].seconds for witness in witnesses) + BESIDES
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + longest) + 1, resource.RLIM_INFINITY))
    _live(*function).__code__ = _code(compile(mutant.source, str(mutant.file), "exec"), function[1].split("."))
    for witness in witnesses:
        try:
            ended = witness.run()
        except Exception as error:
            ended = type(error).__name__
        if ended != known[witness.name].ended:
            return witness.name
    return ""


def _function(mutant: Mutant) -> tuple[str, str] | None:
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


def _forked(jobs: Sequence[Callable[[], Any]], waiting: float) -> Iterator[Any]:
    """Yield what each job returns in a process of its own, in order; None if that is killed.

    Raises:
        RuntimeError: a job raises an error; the message is its traceback.
    """
    results: dict[int, Any] = {}
    running: dict[int, tuple[int, int, float, bytearray]] = {}
    queued = list(enumerate(jobs))[::-1]
    for place in range(len(jobs)):
        while place not in results:
            while queued and len(running) < WORKERS:
                at, job = queued.pop()
                pid, pipe = _started(job)
                running[pipe] = at, pid, time.monotonic() + waiting, bytearray()
            for pipe in select.select(list(running), [], [], 1.0)[0]:
                at, pid, _, heard = running[pipe]
                if part := os.read(pipe, 1 << 16):
                    heard += part
                    continue
                os.close(pipe)
                os.waitpid(pid, 0)
                del running[pipe]
                results[at], problem = pickle.loads(bytes(heard)) if heard else (None, "")
                if problem:
                    raise RuntimeError(problem)
            for _, pid, until, _ in running.values():
                if time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
        yield results[place]


def _started(job: Callable[[], Any]) -> tuple[int, int]:
    """Start a job in a child; its number, and the pipe that brings what it returns."""
    sys.stdout.flush()
    here, there = os.pipe()
    pid = os.fork()
    if pid:
        os.close(there)
        return pid, here
    try:
        told = job(), ""
    except BaseException:
        told = None, traceback.format_exc()
    with suppress(BaseException), os.fdopen(there, "wb") as pipe:
        pipe.write(pickle.dumps(told))
    os._exit(0)
