"""The command line: what each command takes. The docs' option reference is made from it."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, NoReturn

from conformance.core.errors import BAD_USAGE
from conformance.core.options import options_of


class Parser(argparse.ArgumentParser):
    """A parser that exits with status 4 and one line if the arguments cannot be used.

    Options cannot be abbreviated: a short form that is unique today may be ambiguous after the next option.
    """

    def __init__(self, **options: Any) -> None:
        """Take the arguments of argparse's parser."""
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Called by argparse: exit with one line; ``--help`` has the rest."""
        from conformance.core.output import shown

        self.exit(BAD_USAGE, f"{self.prog}: {shown(message)} (see {self.prog} --help)\n")


class CommandParser(Parser):
    """A parser of one command, which reports unknown arguments itself: argparse would point readers to the top."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Called by argparse for a command."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = difflib.get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1, 0.75)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown


class Version(argparse.Action):
    """Show the version, and look it up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Called by argparse."""
        from conformance.core.output import say
        from conformance.core.versions import suite_version

        say(f"autograd-conformance {suite_version()}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Return the whole command line."""
    top = Parser(prog="conformance", description="Does a torch.autograd.Function keep what its documentation promises?")
    top.add_argument("--version", action=Version, nargs=0, help="show the version of the suite")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)
    run = _command(commands, "run", help="test subjects; without any, the reference implementation")
    _add_options(run, "run")
    run.epilog = "Arguments after -- go to pytest as they are."
    listing = _command(commands, "list", help="list every clause")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.add_argument("--spec", metavar="NAME", help="of one spec, which may be one that another package brings")
    explain = _command(
        commands, "explain", help="show a clause: text, level, sources, tests; or what is under a part of an id"
    )
    explain.add_argument(
        "clause",
        metavar="CLAUSE",
        help="the id of a clause, or the first part of some: Function.backward.count, Function.backward",
    )
    scan = _command(commands, "scan", help="find Functions in a package by reading its source")
    scan.add_argument("package", metavar="PACKAGE", help="name of an installed package, or a path")
    scan.add_argument("--json", action="store_true", help="as JSON")
    scan.add_argument("--sarif", metavar="FILE", help="write SARIF for code-scanning pages")
    scan.add_argument("--fail-on", choices=["certain", "likely", "possible"], help="exit 1 on findings this sure")
    verify = _command(commands, "verify", help="check a report.json: schema, completeness, hashes, verdicts")
    verify.add_argument("report", metavar="report.json", help="a report that --report wrote")
    compare = _command(commands, "compare", help="show what changed between two reports")
    compare.add_argument("old", metavar="OLD.json", help="the earlier report")
    compare.add_argument("new", metavar="NEW.json", help="the later report")
    compare.add_argument("--json", action="store_true", help="as JSON")
    proving = _command(commands, "prove", help="prove a specification: planted bugs, correct implementations, mutants")
    proving.add_argument("spec", metavar="SPEC", help="its name, as its package registers it")
    spec = _command(commands, "spec", help="begin a specification of your own")
    spec.add_argument("what", choices=["new"], help="write its folder")
    spec.add_argument("name", metavar="NAME", help="of the class that it documents, such as GatedSum")
    watch = _command(commands, "watch", help="rerun the tests whenever one of the subject's files is saved")
    _add_options(watch, "watch")
    return top


def _command(commands: Any, name: str, help: str) -> argparse.ArgumentParser:
    """Add a command; its own ``--help`` says the same as the list of commands."""
    made: argparse.ArgumentParser = commands.add_parser(name, help=help, description=f"{help[:1].upper()}{help[1:]}.")
    return made


def _add_options(command: argparse.ArgumentParser, name: str) -> None:
    for destination, option in options_of(name):
        how: dict[str, Any] = {"help": option.help}
        if option.metavar:
            how["metavar"] = option.metavar
        if not option.flags:
            command.add_argument(destination, nargs="*", **how)
        elif option.metavar:
            command.add_argument(*option.flags, dest=destination, action="append" if option.many else "store", **how)
        elif option.default_on:
            command.add_argument(*option.flags, dest=destination, action=argparse.BooleanOptionalAction, **how)
        else:
            command.add_argument(*option.flags, dest=destination, action="store_true", **how)
