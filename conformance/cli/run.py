"""``conformance run``: a thin face on pytest, with our own progress line, summary, report and exit status."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.core.catalog import SUITE
from conformance.core.errors import BAD_USAGE, BROKE, INTERRUPTED, UsageError
from conformance.core.options import Options, parse_ranks, parse_timeout
from conformance.core.output import complain, let_go_of_output, why
from conformance.ranks.cluster.store import Launch, launcher, take_launch
from conformance.run.entry_points import registered
from conformance.run.interrupts import interruptible
from conformance.run.journal import Journal
from conformance.run.session import Session

if TYPE_CHECKING:
    from conformance.report.expectations import Expectation
    from conformance.report.model import Report

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


def options_of(arguments: argparse.Namespace) -> Options:
    """Options from the command line, each one checked."""
    device = arguments.device or ("cuda" if arguments.backend == "nccl" else "cpu")
    return Options(
        subjects=(*arguments.subjects, *registered(arguments.packages)),
        spec=arguments.spec,
        inputs=arguments.inputs,
        ranks=parse_ranks(arguments.ranks),
        backend=arguments.backend,
        device=device,
        timeout=parse_timeout(arguments.timeout),
        setup=tuple(arguments.setup),
    )


def run(arguments: argparse.Namespace, passed_on: Sequence[str]) -> int:
    """Carry out ``conformance run``.

    Raises:
        UsageError: the request cannot be carried out; nothing was run.
    """
    launch = take_launch(os.environ)
    if launch is None:
        return _alone(arguments, passed_on)
    from conformance.ranks.cluster import supervisor

    return supervisor.follow(launch, arguments.setup) if launch.rank else _leading(launch, arguments, passed_on)


def _alone(arguments: argparse.Namespace, passed_on: Sequence[str]) -> int:
    with interruptible():
        journal = _resumed(arguments) if arguments.resume else None
        session = Session(options_of(arguments))  # early, so that torch is imported while we read on
        try:
            return _run(arguments, passed_on, session, journal)
        finally:
            session.close()


def _leading(launch: Launch, arguments: argparse.Namespace, passed_on: Sequence[str]) -> int:
    """Run the tests on ranks of all launched processes; when it is over, say so to the others."""
    from conformance.ranks.client import Forkserver
    from conformance.ranks.cluster.supervisor import Cluster, sizes

    if arguments.workers:
        raise UsageError("-n does not go with a launcher: its processes are ranks of one world; leave -n out")
    template = Forkserver()
    cluster = Cluster(launch)
    status = BROKE
    try:
        with interruptible():
            if arguments.report and not arguments.resume and Journal(Path(arguments.report)).begun_by(launcher()):
                arguments.resume = arguments.report
            journal = _resumed(arguments) if arguments.resume else None
            options = options_of(arguments)
            options = replace(options, ranks=sizes(options.ranks, launch.size))
            session = Session(options, template=template, cluster=cluster)
            cluster.gather(template)
            status = _run(arguments, passed_on, session, journal)
            session.close()
    except UsageError:
        status = BAD_USAGE
        raise
    except KeyboardInterrupt:
        status = INTERRUPTED
        raise
    finally:
        template.close()
        cluster.end(status)
    return status


def _resumed(arguments: argparse.Namespace) -> Journal:
    """The journal of the run to go on with; the arguments become those of that run."""
    from conformance.cli.parser import parser

    journal = Journal(Path(arguments.resume))
    journal.go_on(arguments, parser().parse_args(["run"]))
    return journal


def _run(arguments: argparse.Namespace, passed_on: Sequence[str], session: Session, journal: Journal | None) -> int:
    import pytest

    from conformance.core.errors import ForkserverDied, StartFailed
    from conformance.plugin.recorder import Recorder
    from conformance.report.progress import Progress
    from conformance.report.sheet import terminal

    console = terminal(sys.stdout)  # pytest's own words go elsewhere
    progress = Progress(console)
    said = io.StringIO()
    expected, journal = _prepare(arguments, journal, under_launcher=session.cluster is not None)
    recorder = Recorder(session, progress.start, progress.advance, journal)
    try:
        session.items  # noqa: B018 - whatever is wrong with the subjects is said before pytest starts
        with contextlib.ExitStack() as redirected:
            if not passed_on:
                redirected.enter_context(contextlib.redirect_stdout(said))
                redirected.enter_context(contextlib.redirect_stderr(said))
            status = pytest.main(_pytest_arguments(arguments, passed_on), plugins=[recorder])
    except KeyboardInterrupt:
        session.take_unseen()
        status = pytest.ExitCode.INTERRUPTED
    except (StartFailed, ForkserverDied) as error:
        complain(str(error))
        return BROKE
    finally:
        with contextlib.suppress(OSError, SystemExit):  # the terminal may be gone
            progress.stop()
        if journal is not None:
            journal.close()
    if status == pytest.ExitCode.USAGE_ERROR:
        complain(_refusal(said.getvalue()))
        return BAD_USAGE
    if recorder.broken or status in {3, pytest.ExitCode.INTERNAL_ERROR}:
        complain(f"the suite itself broke\n{recorder.broken or said.getvalue()}")
        return BROKE
    if journal is not None and journal.lost:
        complain(journal.lost)
    report = recorder.report(interrupted=status == pytest.ExitCode.INTERRUPTED)
    return _finish(arguments, report, expected)


def _prepare(
    arguments: argparse.Namespace, journal: Journal | None, under_launcher: bool
) -> tuple[tuple[Expectation, ...], Journal | None]:
    """See to it, before anything runs, that all that is to be read and written at the end can be."""
    from conformance.core.clauses import registry
    from conformance.core.errors import UsageError
    from conformance.report.expectations import read_expect
    from conformance.report.files import prepare

    try:
        expected = read_expect(arguments.expect, registry()) if arguments.expect else ()
        folder = prepare(arguments.report) if arguments.report else None
        if arguments.reproduce:
            prepare(arguments.reproduce)
    except UsageError as error:
        raise UsageError(str(error)) from None
    if arguments.write_expect and Path(arguments.write_expect).exists():
        raise UsageError(f"--write-expect {arguments.write_expect!r}: there is such a file; give another name")
    if journal is None and folder is not None:
        journal = Journal(folder)
        try:
            journal.begin(arguments, launcher() if under_launcher else "")
        except OSError as error:
            raise UsageError(f"cannot write {journal.path}: {error.strerror}") from None
    return expected, journal


def _pytest_arguments(arguments: argparse.Namespace, passed_on: Sequence[str]) -> list[str]:
    # The user's own pytest settings and plugins are for the user's own tests.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    suite = SUITE

    words = [str(suite), "-c", os.devnull, f"--rootdir={suite.parent.parent}", "-p", "conformance.plugin", *QUIET]
    words += ["-k", arguments.expression] if arguments.expression else []
    if arguments.workers:
        words += ["-p", "xdist.plugin", "-n", arguments.workers, "--dist", "loadgroup", *_for_workers(arguments)]
    return [*words, *passed_on]


def _for_workers(arguments: argparse.Namespace) -> list[str]:
    words = ["--ranks", arguments.ranks, "--backend", arguments.backend, "--rank-timeout", arguments.timeout]
    words += ["--device", arguments.device] if arguments.device else []
    for reference in arguments.setup:
        words += ["--rank-setup", reference]
    return words


def _refusal(said: str) -> str:
    """The line in which pytest says what is wrong with its arguments."""
    lines = [line.strip() for line in said.splitlines() if "error: " in line.lower()]
    told = lines[-1] if lines else "pytest does not take these arguments"
    return told.removeprefix("ERROR: ").removeprefix("pytest.main(): error: ")


def _finish(arguments: argparse.Namespace, report: Report, expected: Sequence[Expectation]) -> int:
    """Show and write the report; whatever cannot be written is said in a line, after all the rest is done."""
    from conformance.core.errors import UsageError
    from conformance.report import expectations, github
    from conformance.report.files import write_all
    from conformance.report.sheet import terminal
    from conformance.report.terminal import show
    from conformance.report.verdicts import exit_status
    from conformance.reproduce import scripts

    report, problems = expectations.apply(report, expected)
    folder = arguments.report or arguments.resume
    console = terminal()
    works: list[Callable[[], object]] = [lambda: show(report, console, verbose=arguments.verbose)]
    works += [lambda: console.print("\n".join(problems), style="red")] if problems else []
    works += [lambda: write_all(report, folder)] if folder else []
    works += [lambda: scripts.carry_out(arguments, report)] if arguments.reproduce else []
    works += [lambda: expectations.write_expect(report, arguments.write_expect)] if arguments.write_expect else []
    works += [lambda: github.publish(report, sys.stdout), sys.stdout.flush]
    unwritten = False
    for work in works:
        try:
            work()
        except UsageError as error:
            complain(str(error))
            unwritten = True
        except (OSError, SystemExit) as error:  # rich makes a SystemExit of a closed pipe
            complain(why(error if isinstance(error, OSError) else BrokenPipeError()))
            let_go_of_output()
            unwritten = True
    status = exit_status(report, strict=arguments.strict, broken=unwritten)
    return status or int(bool(problems))
