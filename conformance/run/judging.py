"""Run the tests of one subject for ``check``, in this process or on ranks, and report on them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
from conformance.run.in_process import device_of, in_process, on_simulated_ranks
from conformance.run.kept import kept_forkserver
from conformance.run.reporting import environment_of, report_on
from conformance.run.session import Session


def judged(
    subject: Subject, asked: tuple[int, ...] | None, seconds: float, only: str, compile: bool, backend: str
) -> tuple[Report, set[str]]:
    """Return the report and the verdicts that are errors: if only some clauses were selected, incomplete is none."""
    sizes = asked or (1,)
    simulated = is_simulated(backend)
    on_ranks = (max(sizes) > 1 or subject.gathers) and not simulated
    pickled = payload(subject) if on_ranks else ""
    reference = SubjectRef("", subject.spec, None, subject.label, pickled, ranks=tuple(subject.ranks or ()))
    registry = clauses.registry()
    planned = without_compiler(plan(catalog.suite(), registry, [reference], sizes), compile or bool(only), simulated)
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
        outcomes = list(on_simulated_ranks(chosen, subject, backend))
    else:
        device = device_of(subject)
        outcomes = list(in_process(chosen, subject, device))
    chosen_ids = {test.nodeid for test in chosen}
    environment = {"torch": torch.__version__, **environment_of(backend, device, sizes)}
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
        return list(session.run(session.with_missing_hardware(tests)))
