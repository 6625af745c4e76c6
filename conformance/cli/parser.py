"""The ``conformance`` command: reads its arguments and hands over to the part that does the work."""

from __future__ import annotations

import argparse

from conformance.core.errors import BAD_USAGE

RANKS = "1,2,3,4"


class Parser(argparse.ArgumentParser):
    """Ends with status 4 and one line when the arguments cannot be used."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Called by argparse; ``--help`` tells the rest."""
        self.exit(BAD_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """The whole command line; the docs' option reference is made of it."""
    top = Parser(prog="conformance", description="Does a torch.autograd.Function keep what its documentation promises?")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    _run(commands.add_parser("run", help="test subjects; without any, the reference implementation"))
    listing = commands.add_parser("list", help="list every clause")
    listing.add_argument("--json", action="store_true", help="as JSON")
    explain = commands.add_parser("explain", help="show one clause: text, level, sources, tests")
    explain.add_argument("clause", metavar="CLAUSE")
    scan = commands.add_parser("scan", help="find Functions in a package by reading its source")
    scan.add_argument("package", metavar="PACKAGE", help="name of an installed package, or a path")
    scan.add_argument("--json", action="store_true", help="as JSON")
    scan.add_argument("--sarif", metavar="FILE", help="write SARIF for code-scanning pages")
    scan.add_argument("--fail-on", choices=["certain", "likely", "possible"], help="exit 1 on findings this sure")
    verify = commands.add_parser("verify", help="check a report.json: schema, completeness, hashes, verdicts")
    verify.add_argument("report", metavar="report.json")
    compare = commands.add_parser("compare", help="what changed between two reports")
    compare.add_argument("old", metavar="OLD.json")
    compare.add_argument("new", metavar="NEW.json")
    compare.add_argument("--json", action="store_true", help="as JSON")
    watch = commands.add_parser("watch", help="run again whenever a file of the subject is saved")
    _what(watch)
    return top


def _what(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("subjects", nargs="*", metavar="SUBJECT", help="module:attribute: a Function class, a callable or a Subject")
    add("--from", dest="packages", action="append", default=[], metavar="PACKAGE", help="subjects PACKAGE registers")
    add("--spec", metavar="NAME", help="the spec to hold the subjects against (default: Function, the contract alone)")
    add("--inputs", metavar="MODULE:CALLABLE", help="yields tuples of arguments, for spec Function")
    add("--ranks", default=RANKS, metavar="N,N", help=f"world sizes for clauses that need several ranks ({RANKS})")
    add("--backend", default="gloo", metavar="NAME", help="gloo (default) or nccl")
    add("--device", default=None, metavar="DEVICE", help="cpu (default with gloo) or cuda (default with nccl)")
    add("--timeout", default="30", metavar="S", help="deadline of one test on one rank, in seconds (30)")
    add("--setup", action="append", default=[], metavar="MODULE:CALLABLE", help="called first on every rank")


def _run(command: argparse.ArgumentParser) -> None:
    _what(command)
    add = command.add_argument
    add("--strict", action="store_true", help="fail on broken should and quality clauses too")
    add("--expect", metavar="FILE", help="TOML file of deviations that are known and accepted")
    add("--write-expect", metavar="FILE", help="write the deviations found as such a file")
    add("--report", metavar="DIR", help="write report.json, report.html and junit.xml there")
    add("--resume", metavar="DIR", help="go on with the run that was writing its report there")
    add("--reproduce", metavar="DIR", help="write a script with torch alone for every failure")
    add("-k", dest="expression", metavar="EXPR", help="run only the tests whose names match, as in pytest")
    add("-n", dest="workers", metavar="WORKERS", help="run in this many processes side by side (pytest-xdist)")
    add("-v", "--verbose", action="store_true", help="list what is not applicable, and why")
    command.epilog = "Arguments after -- go to pytest as they are."
