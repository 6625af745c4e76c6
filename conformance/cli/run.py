"""``conformance run``: pytest runs the suite; the progress line, the summary and the exit status are our own."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.core import catalog
from conformance.core.catalog import SUITE
from conformance.core.errors import BAD_USAGE, BROKE, INTERRUPTED, RunnerError, UsageError
from conformance.core.key import own_key
from conformance.core.options import RunOptions
from conformance.core.output import complain
from conformance.ranks.cluster.store import Launch, launcher, pop_launch
from conformance.run.emulation import emulated_library
from conformance.run.engine_record import engine_record
from conformance.run.interrupts import Interrupts, interruptible
from conformance.run.journal import Journal, begun_by
from conformance.run.session import Session

if TYPE_CHECKING:
    from conformance.plugin.recorder import Recorder
    from conformance.report.expectations import Expectation, Judged

#: pytest prints nothing: neither its dots nor its tracebacks tell more than our own summary.
QUIET = (
    "-qq",
    "--no-header",
    "--no-summary",
    "--tb=short",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:warnings",
    "-p",
    "no:logging",
    "--noconftest",
)


def run(options: RunOptions, passed_on: Sequence[str]) -> int:
    """Carry out ``conformance run``.

    Args:
        options: those of the command.
        passed_on: arguments for pytest.

    Raises:
        UsageError: the request cannot be carried out; nothing was run.
    """
    launch = pop_launch(os.environ)
    if launch is None:
        return _run_here(options, passed_on, own_key(os.environ) if options.report or options.resume else b"")
    from conformance.ranks.cluster.follower import follow

    if launch.rank == 0:
        return _run_as_leader(launch, options, passed_on)
    return follow(launch, options.setup, emulated_library(options.device))


def _run_here(options: RunOptions, passed_on: Sequence[str], key: bytes) -> int:
    with interruptible() as interrupts:
        options, journal = _resumed(options, key)
        with Session(options) as session:  # early, so that torch is imported in the meantime
            return _run(session, passed_on, journal, key, interrupts)


def _run_as_leader(launch: Launch, options: RunOptions, passed_on: Sequence[str]) -> int:
    """Run the tests on ranks of all launched processes, and tell the others when the run is over."""
    from conformance.ranks.client import Forkserver
    from conformance.ranks.cluster.leader import Cluster, world_sizes

    if options.workers:
        raise UsageError("-n does not go with a launcher: its processes are ranks of one world; leave -n out")
    forkserver = Forkserver(emulated_library(options.device))
    cluster = Cluster(launch)
    status = BROKE
    try:
        with interruptible() as interrupts:
            if options.report and not options.resume and begun_by(Path(options.report), launcher(), launch.key):
                options = replace(options, resume=options.report)
            options, journal = _resumed(options, launch.key)
            options = replace(options, ranks=world_sizes(options.ranks, launch.size))
            with Session(options, forkserver=forkserver, cluster=cluster) as session:
                cluster.gather(forkserver)
                status = _run(session, passed_on, journal, launch.key, interrupts)
    except UsageError:
        status = BAD_USAGE
        raise
    except KeyboardInterrupt:
        status = INTERRUPTED
        raise
    finally:
        forkserver.close()
        cluster.end(status)
    return status


def _resumed(options: RunOptions, key: bytes) -> tuple[RunOptions, Journal | None]:
    """Return the options, and the journal of the run to resume, if any."""
    if not options.resume:
        return options, None
    journal, asked = Journal.resume(Path(options.resume), key)
    return options.resumed(asked), journal


def _run(
    session: Session, passed_on: Sequence[str], journal: Journal | None, key: bytes, interrupts: Interrupts
) -> int:
    import pytest

    from conformance.cli.finish import finish
    from conformance.plugin.recorder import Recorder
    from conformance.report.progress import Progress
    from conformance.report.sheet import terminal

    progress = Progress(terminal(sys.stdout))  # pytest's own output is redirected
    expected, journal = _prepare(session, journal, key)
    recorder = Recorder(session, progress.start, progress.advance, journal)
    try:
        session.plan()  # problems of the subjects are reported before pytest starts
        status, said = _run_tests(session, recorder, passed_on)
    except KeyboardInterrupt:
        session.name_subjects_unchecked()
        status, said = pytest.ExitCode.INTERRUPTED, ""
    except RunnerError as error:
        complain(str(error))
        return BROKE
    finally:
        interrupts.finishing = True
        with contextlib.suppress(OSError, SystemExit):  # the terminal may be gone
            progress.stop()
        if journal is not None:
            journal.close()
    if refused := _usage_problem(status, said, recorder):
        complain(refused)
        return BAD_USAGE
    broken = _broken(recorder, status, said)
    lost = journal.lost if journal is not None else ""
    for problem in filter(None, (broken, lost)):
        complain(problem)
    interrupted = status == pytest.ExitCode.INTERRUPTED
    ended = finish(session, recorder.report(interrupted), expected, broken=bool(broken))
    return INTERRUPTED if interrupts.count else ended


def _run_tests(session: Session, recorder: Recorder, passed_on: Sequence[str]) -> tuple[int, str]:
    """Do what :func:`_run_pytest` does, and read the outcomes of PyTorch's own tests from the cache, or cache them."""
    anew = recorder.earlier or session.cluster
    record = None if anew else engine_record(session.options, passed_on)
    if record is not None and (session.options.subjects or session.options.packages):
        recorder.know(*record.read(session.tests))
    ended = _run_pytest(session.options, recorder, passed_on)
    if record is not None and not recorder.engine_tested:
        record.write(session.tests, recorder.outcomes.values(), recorder.started)
    return ended


def _run_pytest(options: RunOptions, recorder: Recorder, passed_on: Sequence[str]) -> tuple[int, str]:
    """Run pytest; return its exit status and what it printed. With arguments of the user's it prints by itself."""
    import pytest

    said = io.StringIO()
    with _without_the_users_plugins(), contextlib.ExitStack() as redirected:
        if not passed_on:
            redirected.enter_context(contextlib.redirect_stdout(said))
            redirected.enter_context(contextlib.redirect_stderr(said))
        status = pytest.main(_pytest_arguments(options, passed_on), plugins=[recorder])
    return status, said.getvalue()


def _usage_problem(status: int, said: str, recorder: Recorder) -> str:
    """Return the problems of the request that only pytest could find; empty if there are none."""
    import pytest

    if status == pytest.ExitCode.USAGE_ERROR:
        return _refusal(said)
    expression = recorder.session.options.expression
    none = status == pytest.ExitCode.NO_TESTS_COLLECTED and recorder.session.tests and not recorder.earlier
    if expression and none:
        return f"-k {expression!r} matches no test; {_meant(expression)}"
    return ""


def _broken(recorder: Recorder, status: int, said: str) -> str:
    """Say why some planned tests were not run; empty if all were, or if the user interrupted the run."""
    import pytest

    ended_early = status in {BROKE, pytest.ExitCode.INTERNAL_ERROR}
    why = recorder.broken or (ended_early and (said or "pytest ended early"))
    if why:
        return f"the suite itself broke\n{why}"
    if recorder.workers_lost and recorder.unrun and status != pytest.ExitCode.INTERRUPTED:
        return f"worker processes ended {recorder.workers_lost} times; {recorder.unrun} tests were not run"
    return ""


def _prepare(
    session: Session, journal: Journal | None, key: bytes
) -> tuple[tuple[Expectation | Judged, ...], Journal | None]:
    """Check, before anything runs, that every file to read can be read and every file to write can be written."""
    from conformance.core.clauses import registry
    from conformance.report.expectations import read_expect
    from conformance.report.files import prepare

    options = session.options
    expected = read_expect(options.expect, registry(*filter(None, [options.spec]))) if options.expect else ()
    folder = prepare(options.report) if options.report else None
    if options.reproduce:
        prepare(options.reproduce)
    if options.write_expect:
        _prepare_expect(options.write_expect)
    if journal is None and folder is not None:
        journal = Journal.begin(folder, options, key, launcher() if session.cluster else "")
    return expected, journal


def _prepare_expect(given: str) -> None:
    """Check that a first list of deviations can be written, and replaces none."""
    from conformance.report.files import prepare_file

    folder, name = os.path.split(given)
    if os.path.exists(given):
        raise UsageError(f"--write-expect {given!r}: there is such a file; give another name")
    if not name or not os.path.isdir(folder or "."):
        raise UsageError(f"--write-expect {given!r}: there is no folder {folder!r}")
    prepare_file(Path(given))


@contextlib.contextmanager
def _without_the_users_plugins() -> Iterator[None]:
    """Run without the user's pytest settings and plugins, which are for the user's own tests."""
    names = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        os.environ.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)
        os.environ.update(before)


def _pytest_arguments(options: RunOptions, passed_on: Sequence[str]) -> list[str]:
    words = [str(SUITE), "-c", os.devnull, f"--rootdir={SUITE.parent.parent}", "-p", "conformance.plugin", *QUIET]
    words += ["-k", options.expression] if options.expression else []
    if options.workers:
        words += ["-p", "xdist.plugin", "-n", options.workers, "--dist", "loadscope"]
    return [*words, *passed_on]


def _meant(expression: str) -> str:
    """Give a hint for an expression that matches nothing: a clause's id is not the name of a test."""
    tests = dict.fromkeys(test.function for test in catalog.tests_of(expression))
    if not tests:
        return "give part of a test's name, as in pytest"
    return f"the tests of that clause are -k '{' or '.join(tests)}'"


def _refusal(said: str) -> str:
    """Return the line in which pytest says what is wrong with its arguments."""
    lines = [line.strip() for line in said.splitlines() if "error: " in line.lower()]
    told = lines[-1] if lines else "pytest does not take these arguments"
    return told.removeprefix("ERROR: ").removeprefix("pytest.main(): error: ")
