"""Does each of many jobs in a process of its own, a few at a time: one that dies, or does not end, is not the end."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

#: How many at a time, and how long one may take: processor time, and by the clock (seconds).
PROCESSES, LIMIT, DEADLINE = 2, 150, 1500.0

Job = TypeVar("Job")
Result = TypeVar("Result")


def isolated(
    jobs: Iterable[Job], do: Callable[[Job], Result], ended: Callable[[Job, int | None], Result]
) -> Iterator[Result]:
    """Return what ``do`` makes of each job, or ``ended`` of the job and its process's exit status, as they end."""
    waiting = iter(jobs)
    running: dict[int, tuple[BaseProcess, connection.Connection, Job, float]] = {}
    while True:
        while len(running) < PROCESSES and (job := next(waiting, None)) is not None:
            ours, theirs = get_context("fork").Pipe(duplex=False)
            process = get_context("fork").Process(target=_in_a_process, args=(do, job, theirs))
            process.start()
            theirs.close()
            running[process.sentinel] = process, ours, job, time.monotonic() + DEADLINE
        if not running:
            return
        connection.wait([*running, *(ours for _, ours, *_ in running.values())], timeout=1)
        for sentinel, (process, ours, job, deadline) in list(running.items()):
            if process.is_alive() and time.monotonic() > deadline:
                process.kill()
            elif ours.poll() or not process.is_alive():  # a long answer is read before its process can end
                del running[sentinel]
                yield _answer(ours, process, partial(ended, job))


def _in_a_process(do: Callable[[Any], object], job: Any, answer: connection.Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer.send(do(job))


def _answer(pipe: connection.Connection, process: BaseProcess, ended: Callable[[int | None], Result]) -> Result:
    try:
        found: Result = pipe.recv()
    except EOFError:
        process.join()
        return ended(process.exitcode)
    finally:
        pipe.close()
    process.join()
    return found
