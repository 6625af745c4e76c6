"""End a run: show the summary and write the reports."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from conformance.core.errors import UsageError
from conformance.core.outcomes import EARLIER_CALLS
from conformance.core.output import complain, discard, say, why_unwritable
from conformance.core.prose import counted
from conformance.report import expectations, github
from conformance.report.expectations import Expectation, Judged
from conformance.report.failures import failures
from conformance.report.files import write_all
from conformance.report.model import Report
from conformance.report.sheet import Sheet, terminal
from conformance.report.terminal import show
from conformance.report.verdicts import exit_status
from conformance.reproduce.scripts import write_scripts
from conformance.run.session import Session


def finish(session: Session, report: Report, expected: Sequence[Expectation | Judged], broken: bool = False) -> int:
    """Show and write the report, and return the exit status.

    If something cannot be written, the rest is done first and then one line says so.

    Args:
        session: the run.
        report: that of the run.
        expected: the deviations that are known, and what was judged.
        broken: whether the suite itself broke on the way.
    """
    report = replace(report, command=shlex.join(["conformance", *sys.argv[1:]]))
    report, problems = expectations.mark_expected(report, expected)
    unwritten = [not _done(work) for work in _works(session, report, problems)]
    return exit_status(report, strict=session.options.strict, broken=broken or any(unwritten)) or int(bool(problems))


def _works(session: Session, report: Report, problems: Sequence[str]) -> list[Callable[[], object]]:
    options, console = session.options, terminal()
    folder, scripts, new_expect = options.report or options.resume, options.reproduce, options.write_expect
    works: list[Callable[[], object]] = [lambda: show(report, console, verbose=options.verbose)]
    works += [lambda: Sheet(console).say("\n".join(problems), "red")] if problems else []
    works += [lambda: write_all(report, folder)] if folder else []
    works += [lambda: _reproduce(session, report, scripts)] if scripts else []
    works += [lambda: expectations.write_expect(report, new_expect)] if new_expect else []
    return [*works, lambda: github.publish(report, sys.stdout), sys.stdout.flush]


def _done(work: Callable[[], object]) -> bool:
    try:
        work()
    except UsageError as error:
        complain(str(error))
        return False
    except (OSError, SystemExit) as error:  # rich makes a SystemExit of a closed pipe
        complain(why_unwritable(error if isinstance(error, OSError) else BrokenPipeError()))
        discard(sys.stdout)
        return False
    return True


def _reproduce(session: Session, report: Report, folder: str) -> None:
    scripts = write_scripts(report, session.tests, folder, session.options.timeout)
    say(f"{counted(len(scripts), 'script')} in {folder}: each shows a failure with torch alone")
    broken = [failure for part in report.parts for clause in part.clauses for failure in failures(clause)]
    if left_out := sum(failure.likely == EARLIER_CALLS for failure in broken):
        say(f"without a script, for they need earlier calls of the same process: {left_out}")
