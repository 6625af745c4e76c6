"""Change the kit in one place, in a forked process, and say which planted bug, right class or kernel notices.

A change is held against the tests that reach the lines it is about; a test that ends otherwise than before notices.
"""

from __future__ import annotations

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
from functools import partial
from typing import Any

import torch

from conformance.core import catalog, clauses
from conformance.core.plan import PlannedTest, SubjectRef, plan
from conformance.kit.loading import resolve
from conformance.prove.implementations import Implementation
from conformance.run.in_process import in_process
from tests.proof.implementations import of_the_contract
from tests.proof.matrix import broken_beside

#: Processes side by side.
WORKERS = os.cpu_count() or 2
#: The tests that a change is held against take so long at most (seconds), and as many times as long with it.
MOST, SLOWER = 6.0, 10
#: What a process needs besides, of processor time and waiting (seconds).
BESIDES, WAITING = 10, 900
#: What noticed a change whose process was killed: by a signal, or since it took too long.
KILLED = "its process was killed"
#: A file, and the number of a line of it.
Line = tuple[str, int]


@dataclass(frozen=True)
class Change:
    """A change of the kit, and the lines that it is about."""

    lines: frozenset[Line]
    make: Callable[[], None]


@dataclass(frozen=True)
class Witness:
    """A test that notices a change if it ends in another way: of a planted bug, a right class or a kernel."""

    name: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Known:
    """How a witness ends with the kit as it is, the lines that it reaches, and its seconds."""

    ended: str
    reaches: frozenset[Line]
    seconds: float


@dataclass(frozen=True)
class Noticed:
    """The witness that noticed a change, or nothing; and how many were asked."""

    by: str
    asked: int


def noticed(
    changes: Sequence[Change], witnesses: Sequence[Witness], said: Callable[[object], None], most: float = MOST
) -> list[Noticed]:
    """Hold every change against its witnesses, in processes of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    lines = {line for change in changes for line in change.lines}
    parts = [witnesses[first::WORKERS] for first in range(WORKERS)]
    known: dict[str, Known] = {}
    for found in _forked([partial(_known, part, lines) for part in parts], 3600):
        if found is None:
            raise RuntimeError("a process was killed that ran the tests with the kit as it is")
        known |= found
        said(found)
    reached_by: dict[Line, list[str]] = defaultdict(list)
    for name, one in known.items():
        for line in one.reaches:
            reached_by[line].append(name)
    by_name = {witness.name: witness for witness in witnesses}
    asked = [[by_name[name] for name in _few(change, reached_by, known, most)] for change in changes]
    jobs = [partial(_noticed, change, few, known) for change, few in zip(changes, asked, strict=True)]
    results = []
    for few, found in zip(asked, _forked(jobs, WAITING), strict=True):
        results.append(Noticed(KILLED if found is None else found, len(few)))
        said(found)
    return results


def _few(
    change: Change, reached_by: Mapping[Line, Iterable[str]], known: Mapping[str, Known], most: float
) -> list[str]:
    """Take those that reach what is changed, as many as fit into the time, and one at least.

    Of each test the quickest class of each module comes first: what one of them does not show, its like seldom do.
    """
    kinds: dict[str, int] = defaultdict(int)
    turns: dict[str, int] = {}
    for name in sorted({name for line in change.lines for name in reached_by.get(line, ())}, key=_seconds(known)):
        kind = name.rpartition(":")[0] or name  # each kernel is a kind of its own
        turns[name] = kinds[kind]
        kinds[kind] += 1
    few: list[str] = []
    spent = 0.0
    for name in sorted(turns, key=lambda name: (turns[name], known[name].seconds)):
        spent += known[name].seconds
        if few and spent > most:
            break
        few.append(name)
    return few


def _seconds(known: Mapping[str, Known]) -> Callable[[str], float]:
    return lambda name: known[name].seconds


def of_contract() -> Iterator[Witness]:
    """The tests of each bug's own clause, and of a right class those of the clauses that its neighbours break."""
    tests, registry = catalog.suite(), clauses.registry()
    for one in of_the_contract():
        if ".unwritten:" in one.reference:  # what memory holds is another thing in each run
            continue
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


def _known(witnesses: Sequence[Witness], lines: Iterable[Line]) -> dict[str, Known]:
    """Run witnesses with the kit as it is, and note which of the lines they reach."""
    of_file: dict[str, set[int]] = defaultdict(set)
    for file, line in lines:
        of_file[file].add(line)
    reached: set[Line] = set()

    def entered(frame: Any, _: str, __: object) -> Any:
        return running if frame.f_code.co_filename in of_file else None

    def running(frame: Any, _: str, __: object) -> Any:
        file = frame.f_code.co_filename
        if frame.f_lineno in of_file[file]:
            reached.add((file, frame.f_lineno))
        return running

    found = {}
    for witness in witnesses:
        reached.clear()
        start = time.process_time()
        sys.settrace(entered)
        try:
            ended = witness.run()
        finally:
            sys.settrace(None)
        found[witness.name] = Known(ended, frozenset(reached), time.process_time() - start)
    return found


def _noticed(change: Change, witnesses: Sequence[Witness], known: Mapping[str, Known]) -> str:
    """The first witness that ends otherwise with a change; empty if none does."""
    longest = SLOWER * sum(known[witness.name].seconds for witness in witnesses) + BESIDES
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + longest) + 1, resource.RLIM_INFINITY))
    change.make()
    for witness in witnesses:
        try:
            ended = witness.run()
        except Exception as error:
            ended = type(error).__name__
        if ended != known[witness.name].ended:
            return witness.name
    return ""


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
