"""The commands, each with its arguments. Nothing here imports torch; slow imports happen where they are needed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.cli.parser import parser
from conformance.core.errors import BAD_USAGE, BROKE, FAILS, INTERRUPTED, OK, RunnerError, UsageError
from conformance.core.options import RunOptions
from conformance.core.output import complain, discard, say, say_data, why_unwritable
from conformance.core.prose import counted
from conformance.core.streams import escape_what_they_cannot_say, open_missing
from conformance.run.interrupts import interruptible

#: How many problems of a report are worth printing.
MANY = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    open_missing()
    escape_what_they_cannot_say()
    try:
        with interruptible():  # from the start: reading the suite takes a while
            return _carry_out(list(sys.argv[1:] if argv is None else argv))
    except UsageError as error:
        complain(str(error))
        return BAD_USAGE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except RunnerError as error:
        complain(str(error))
        return BROKE
    except MemoryError:
        complain("this machine has not enough memory for that")
        return BROKE
    except OSError as error:
        complain(why_unwritable(error) if error.filename is None else f"{error.filename}: {error.strerror}")
        discard(sys.stdout)
        return BROKE


def _carry_out(words: list[str]) -> int:
    passed_on: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, passed_on = words[:cut], words[cut + 1 :]
    try:
        arguments = parser().parse_args(words, argparse.Namespace(passed_on=passed_on))
    except SystemExit as ending:
        return int(ending.code or 0)
    status = COMMANDS[arguments.command](arguments)
    sys.stdout.flush()
    return status


def _require_current_directory() -> None:
    """Check that the current directory exists: modules are found there, and reports go there.

    Raises:
        UsageError: it has been removed.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current directory does not exist any more; go to another one") from None


def _run(arguments: argparse.Namespace) -> int:
    _require_current_directory()
    from conformance.cli.run import run

    return run(RunOptions.from_text(vars(arguments)), arguments.passed_on)


def _watch(arguments: argparse.Namespace) -> int:
    _require_current_directory()
    from conformance.run.watch import watch

    given = {**vars(arguments), "compile": bool(arguments.compile)}  # watch must answer at once
    return watch(RunOptions.from_text(given))


def _list(arguments: argparse.Namespace) -> int:
    from conformance.cli import listing

    return listing.show_list(as_json=arguments.json, spec=arguments.spec)


def _explain(arguments: argparse.Namespace) -> int:
    from conformance.cli import listing

    return listing.explain(arguments.clause)


def _scan(arguments: argparse.Namespace) -> int:
    from conformance.report.sheet import terminal
    from conformance.scan.command import run as scan

    return scan(
        arguments.package,
        as_json=arguments.json,
        sarif=Path(arguments.sarif) if arguments.sarif else None,
        console=terminal(),
        fail_on=arguments.fail_on,
    )


def _verify(arguments: argparse.Namespace) -> int:
    from conformance.core.clauses import registry
    from conformance.report.verify import verify

    found = verify(arguments.report, registry())
    for problem in found.problems[:MANY]:
        say(problem)
    if found.problems:
        shown = f", of which the first {MANY} are shown" if len(found.problems) > MANY else ""
        say(f"{arguments.report}: {counted(len(found.problems), 'problem')}{shown}")
        return FAILS
    say(f"{arguments.report}: valid; taken as it is: {found.taken}")
    return OK


def _compare(arguments: argparse.Namespace) -> int:
    from conformance.report import compare
    from conformance.report.files import read
    from conformance.report.sheet import terminal

    change = compare.compare(read(arguments.old), read(arguments.new))
    if arguments.json:
        say_data(change.to_json())
    else:
        compare.show(change, terminal())
    return FAILS if change.worse else OK


def _prove(arguments: argparse.Namespace) -> int:
    from conformance.prove.proving import prove

    return prove(arguments.spec)


def _spec(arguments: argparse.Namespace) -> int:
    _require_current_directory()
    from conformance.cli.beginning import begin

    return begin(arguments.name)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "list": _list,
    "explain": _explain,
    "scan": _scan,
    "verify": _verify,
    "compare": _compare,
    "watch": _watch,
    "prove": _prove,
    "spec": _spec,
}
