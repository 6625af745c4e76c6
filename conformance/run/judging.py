"""Run the tests of one subject for ``check``, in this process or on ranks, and report on them."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from conformance.core import catalog, clauses
from conformance.core.options import RunOptions
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef, plan, without_compiler
from conformance.core.worlds import is_simulated
from conformance.kit.subject import Subject
from conformance.ranks.pickled import payload
from conformance.report.model import Report
from conformance.run import arguments
from conformance.run.in_process import device_of, in_process, megabytes, on_simulated_ranks
from conformance.run.kept import kept_forkserver
from conformance.run.reporting import environment_of, report_on
from conformance.run.session import Session

#: Samples of this many megabytes are reported to take long.
LARGE = 32
SLOW = "a sample has {} MB, and is called hundreds of times: a small one is judged in seconds, and shows as much"
#: Once the calls of such a sample, times its megabytes, reach this, no further test starts: a few minutes.
MOST = 20_000
#: Seconds without output that do not worry a user.
QUIET = 3.0


def judged(
    subject: Subject, asked: tuple[int, ...] | None, seconds: float, only: str, compile: bool, backend: str
) -> tuple[Report, set[str]]:
    """Return the report, and the verdicts that are errors: incomplete is not one if only some clauses were selected."""
    sizes = asked or (1,)
    simulated = is_simulated(backend)
    on_ranks = (max(sizes) > 1 or subject.gathers) and not simulated
    pickled = payload(subject) if on_ranks else ""
    reference = SubjectRef(
        "", subject.spec, None, subject.label, pickled, ranks=tuple(subject.ranks or ()), types=subject.types
    )
    every = plan(catalog.suite(subject.spec), clauses.registry(subject.spec), [reference], sizes)
    planned = without_compiler(every, compile or bool(only), simulated)
    where = RunOptions(backend=backend, device="cpu").device_arguments
    tests = [replace(test, where=where) for test in planned if test.subject]
    chosen = arguments.chosen(only, tests)
    if asked is None:
        arguments.expect_runnable(chosen)
    if on_ranks:
        inputs_ask = subject.gathers and callable(subject.inputs)
        outcomes = _on_ranks(chosen, reference, subject.types or "", sizes, seconds, inputs_ask)
        device = "cpu"
    elif simulated:
        device = "cpu"
        outcomes = _shown(on_simulated_ranks(chosen, subject, backend), len(chosen))
    else:
        device = device_of(subject)
        calls = None
        if (size := megabytes(subject)) >= LARGE:
            warnings.warn(f"{subject.label}: {SLOW.format(size)}", stacklevel=3)
            calls, known = MOST // size, clauses.registry(subject.spec).values()
            order = [clause.id for clause in sorted(known, key=lambda clause: clauses.LEVELS.index(clause.level))]
            chosen = sorted(chosen, key=lambda test: order.index(test.test.clause))
        outcomes = _shown(in_process(chosen, subject, device, calls), len(chosen))
    chosen_ids = {test.nodeid for test in chosen}
    environment = {"torch": str(torch.__version__), **environment_of(backend, device, sizes)}
    report = report_on(tests, outcomes, [reference], environment, selected=chosen_ids, engine=False)
    whole = not only or any(outcome.outcome == "skip" for outcome in outcomes)
    return report, {"fails", "incomplete"} if whole else {"fails"}


def _on_ranks(
    tests: Sequence[PlannedTest],
    subject: SubjectRef,
    types: str,
    sizes: tuple[int, ...],
    timeout: float,
    inputs_ask: bool,
) -> list[TestOutcome]:
    """Run tests on rank processes, which look for modules where the caller does.

    If inputs may depend on their rank, they have not been checked yet.
    """
    options, path = RunOptions(ranks=sizes, timeout=timeout), [*filter(None, sys.path)]
    with (
        kept_forkserver() as forkserver,
        Session(options, subjects=[subject], forkserver=forkserver, path=path) as session,
    ):
        if inputs_ask:
            session.expect_samples(subject)
        session.expect_fitting_types(subject, types)
        return _shown(session.run(session.with_missing_hardware(tests)), len(tests))


def _shown(outcomes: Iterable[TestOutcome], total: int) -> list[TestOutcome]:
    """Collect outcomes; on a terminal, show how far they are once that has taken a while."""
    found: list[TestOutcome] = []
    start, progress = time.monotonic(), None
    try:
        for outcome in outcomes:
            found.append(outcome)
            if progress is not None:
                progress.advance(outcome)
            elif time.monotonic() - start > QUIET and sys.stderr.isatty():
                from conformance.report.progress import Progress
                from conformance.report.sheet import terminal

                progress = Progress(terminal(sys.stderr))
                progress.start(total)
                for earlier in found:
                    progress.advance(earlier)
    finally:
        if progress is not None:
            progress.stop()
    return found
