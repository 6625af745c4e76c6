"""``conformance watch``: test again whenever a file is saved, on ranks of one forkserver."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from conformance.core.errors import OK, UsageError
from conformance.core.options import RunOptions
from conformance.core.outcomes import BROKEN, TestOutcome
from conformance.core.output import say
from conformance.core.plan import PlannedTest
from conformance.run.session import Session

#: How often the files are checked (seconds). An editor's save is complete within two checks.
LOOK = 0.02
Stamp = tuple[int, int]


def watch(options: RunOptions) -> int:
    """Carry out ``conformance watch``; Ctrl-C ends it."""
    if not (options.subjects or options.packages):
        raise UsageError("watch needs a subject, for example: conformance watch mypackage.layers:MyFunction")
    # Python compares compiled file and source in whole seconds, and two saves may be closer.
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    with Session(options) as session, contextlib.suppress(KeyboardInterrupt):
        tests = [test for test in session.tests if test.subject]
        while True:
            before = stamps(watched(session))
            tests = one_round(session, tests)
            say("watching for changes; press Ctrl-C to stop")
            wait_for_change(stamps(watched(session)) | before)  # a save during the round counts too
    return OK


def one_round(session: Session, tests: Sequence[PlannedTest]) -> list[PlannedTest]:
    """Run everything on fresh ranks and show it; return the tests, those that failed first."""
    from conformance.report.sheet import terminal
    from conformance.report.terminal import show

    start = time.perf_counter()
    session.pool.forget()
    outcomes = list(session.run(tests))
    seconds = time.perf_counter() - start
    report = session.report(tests, outcomes, engine=False, seconds=seconds)
    show(report, terminal())
    say(f"{len(tests)} tests in {seconds:.2f} s")
    return failing_first(tests, outcomes)


def failing_first(tests: Sequence[PlannedTest], outcomes: Sequence[TestOutcome]) -> list[PlannedTest]:
    """Group tests by world; in each world, tests that failed last time come first."""
    bad = {outcome.nodeid for outcome in outcomes if outcome.outcome in BROKEN}
    worlds = {(test.label, test.world): place for place, test in reversed(list(enumerate(tests)))}
    failing = {(test.label, test.world) for test in tests if test.nodeid in bad}

    def rank(test: PlannedTest) -> tuple[bool, int, bool]:
        world = (test.label, test.world)
        return world not in failing, worlds[world], test.nodeid not in bad

    return sorted(tests, key=rank)


def watched(session: Session) -> set[str]:
    """List the files that the subjects were imported from, and those below the current directory that import them."""
    here = os.getcwd()
    own = {file for file in session.pool.files if Path(file).is_relative_to(here)}
    return own or session.pool.files


def wait_for_change(before: Mapping[str, Stamp]) -> None:
    """Wait until one of the files changes."""
    while stamps(before) == before:
        time.sleep(LOOK)
    settled = stamps(before)
    while True:  # an editor may write a file in several steps
        time.sleep(LOOK / 2)
        now = stamps(before)
        if now == settled:
            return
        settled = now


def stamps(files: Iterable[str]) -> dict[str, Stamp]:
    """Return the time of the last change and the size of each file."""
    found = {}
    for file in files:
        try:
            status = os.stat(file)
            found[file] = (status.st_mtime_ns, status.st_size)
        except OSError:
            found[file] = (0, 0)
    return found
