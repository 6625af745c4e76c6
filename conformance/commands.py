"""What each command does. Nothing here imports torch; what is heavy is imported where it is needed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.cli import BAD_USAGE, BROKE, FAILS, INTERRUPTED, OK


def carry_out(arguments: argparse.Namespace, passed_on: Sequence[str]) -> int:
    """Do what the arguments say; complaints come out as a line or two."""
    from conformance.ending import complain, let_go_of_output, why
    from conformance.options import BadUsage

    commands: dict[str, Callable[[], int]] = {
        "run": lambda: _run(arguments, passed_on),
        "list": lambda: _list(arguments),
        "explain": lambda: _explain(arguments),
        "scan": lambda: _scan(arguments),
        "verify": lambda: _verify(arguments),
        "compare": lambda: _compare(arguments),
        "watch": lambda: _watch(arguments),
    }
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - closed by whoever started us
    try:
        status = commands[arguments.command]()
        sys.stdout.flush()
    except BadUsage as error:
        complain(str(error))
        return BAD_USAGE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except OSError as error:
        complain(why(error) if error.filename is None else f"{error.filename}: {error.strerror}")
        let_go_of_output()
        return BROKE
    return status


def _run(arguments: argparse.Namespace, passed_on: Sequence[str]) -> int:
    from conformance.run import run

    return run(arguments, passed_on)


def _list(arguments: argparse.Namespace) -> int:
    from conformance import listing

    return listing.show_list(as_json=arguments.json)


def _explain(arguments: argparse.Namespace) -> int:
    from conformance import listing

    return listing.explain(arguments.clause)


def _scan(arguments: argparse.Namespace) -> int:
    from conformance.report.sheet import terminal
    from conformance.scan.command import run as scan

    return scan(
        arguments.package,
        json=arguments.json,
        sarif=Path(arguments.sarif) if arguments.sarif else None,
        console=terminal(),
        fail_on=arguments.fail_on,
    )


def _verify(arguments: argparse.Namespace) -> int:
    from conformance.clauses import registry
    from conformance.options import BadUsage
    from conformance.report.model import ReportError
    from conformance.verify import verify

    try:
        problems = verify(arguments.report, registry())
    except ReportError as error:
        raise BadUsage(str(error)) from None
    for problem in problems:
        print(problem)
    print(f"{arguments.report}: {len(problems)} problems" if problems else f"{arguments.report}: in order")
    return FAILS if problems else OK


def _compare(arguments: argparse.Namespace) -> int:
    from conformance import compare
    from conformance.options import BadUsage
    from conformance.report.model import ReportError
    from conformance.report.sheet import terminal
    from conformance.report.write import read

    try:
        change = compare.compare(read(arguments.old), read(arguments.new))
    except ReportError as error:
        raise BadUsage(str(error)) from None
    if arguments.json:
        print(json.dumps(change.to_json(), indent=1))
    else:
        compare.show(change, terminal())
    return FAILS if change.worse else OK


def _watch(arguments: argparse.Namespace) -> int:
    from conformance.watch import watch

    return watch(arguments)
