"""``conformance scan``: scan, write the findings, and return the exit status."""

from __future__ import annotations

from json import dumps
from pathlib import Path

from rich.console import Console

from conformance.core.errors import BAD_USAGE, FAILS, OK, UsageError
from conformance.core.output import complain, say_data
from conformance.scan.formats import to_json, to_sarif
from conformance.scan.model import Confidence, at_least
from conformance.scan.reading import scan
from conformance.scan.table import table


def run(
    target: str,
    *,
    as_json: bool = False,
    sarif: Path | None = None,
    fail_on: Confidence | None = None,
    console: Console | None = None,
) -> int:
    """Scan ``target`` and write a table, or JSON, and SARIF if a file for it is named.

    Returns:
        0 if it ran, whatever it found; 1 with ``fail_on`` if there are findings at least that sure; 4 if
        there is nothing of that name to read, or the SARIF file cannot be written.
    """
    console = console or Console()
    try:
        result = scan(target)
    except UsageError as error:
        return _bad(str(error))
    except OSError as error:
        return _bad(f"{error.filename or target} cannot be read: {error.strerror or error}")
    try:
        if sarif is not None:
            sarif.write_text(dumps(to_sarif(result), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        return _bad(f"{sarif} cannot be written: {error.strerror or error}")
    if as_json:
        say_data(to_json(result), console.file)
    else:
        table(result, console)
    failed = fail_on is not None and any(at_least(finding.confidence, fail_on) for finding in result.findings)
    return FAILS if failed else OK


def _bad(message: str) -> int:
    complain(" ".join(message.split()))
    return BAD_USAGE
