"""Write a scan for people: every Function with file and line, then every finding, from 80 columns on.

Piped into a program or a file, it has one line for each finding, as compilers and linters do.
"""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.core.output import say, shown
from conformance.core.prose import counted
from conformance.scan.model import CONFIDENCES, Confidence, Finding, Found, Scan

STYLES: dict[Confidence, str] = {"certain": "bold red", "likely": "yellow", "possible": "cyan"}

#: From this width on a finding fits on one row; below it, clause, place and message are stacked.
WIDE = 120


def table(scan: Scan, console: Console) -> None:
    """Write a scan to a console."""
    if not console.is_terminal:
        for finding in _by_certainty(scan.findings):
            say(_line(finding), console.file)
    else:
        if scan.found:
            console.print(_functions(scan.found))
        if scan.findings:
            console.print(_findings(scan.findings, console.width >= WIDE))
    for skipped in scan.skipped:
        console.print(
            Text.assemble(("skipped", "yellow"), f" {shown(skipped.file)}: {shown(skipped.reason)}"), soft_wrap=True
        )
    console.print(_summary(scan), highlight=False, soft_wrap=True)


def _by_certainty(findings: tuple[Finding, ...]) -> list[Finding]:
    return sorted(findings, key=lambda finding: -CONFIDENCES.index(finding.confidence))


def _line(finding: Finding) -> str:
    return f"{finding.file}:{finding.line}: {finding.confidence} {finding.clause}: {finding.message}"


def _functions(found: tuple[Found, ...]) -> Table:
    grid = Table(title="Functions", title_justify="left", box=None, pad_edge=False, header_style="bold", expand=False)
    grid.add_column("line", justify="right", no_wrap=True)
    grid.add_column("Function", overflow="fold", ratio=2)
    grid.add_column("defines", overflow="fold", ratio=2)
    grid.add_column("seen", justify="right", no_wrap=True)
    for file, group in groupby(found, key=lambda function: function.file):
        grid.add_row("", _cell(file, "dim"), "", "")
        for function in group:
            name = function.qualname.partition(":")[2]
            cells = (str(function.line), name, ", ".join(function.members), str(len(function.findings) or ""))
            grid.add_row(*map(_cell, cells))
    return grid


def _findings(findings: tuple[Finding, ...], wide: bool) -> Table:
    grid = Table(title="\nSeen without running", title_justify="left", box=None, pad_edge=False, header_style="bold")
    grid.add_column("sure", no_wrap=True)
    if wide:
        grid.add_column("clause", no_wrap=True)
        grid.add_column("where", overflow="fold", ratio=2)
        grid.add_column("what", overflow="fold", ratio=3)
    else:
        grid.add_column("clause, where, what", overflow="fold")
    for finding in _by_certainty(findings):
        sure = Text(finding.confidence, style=STYLES[finding.confidence])
        where = f"{finding.file}:{finding.line}"
        if wide:
            grid.add_row(sure, *map(_cell, (finding.clause, where, finding.message)))
        else:
            grid.add_row(sure, _cell(f"{finding.clause}\n{where}\n{finding.message}"))
    return grid


def _cell(text: str, style: str = "") -> Text:
    return Text(shown(text), style=style, overflow="fold")


def _summary(scan: Scan) -> str:
    counts = [
        f"{sum(finding.confidence == confidence for finding in scan.findings)} {confidence}"
        for confidence in reversed(CONFIDENCES)
    ]
    functions, files = counted(len(scan.found), "Function"), counted(scan.files, "file")
    skipped = f", {len(scan.skipped)} skipped" if scan.skipped else ""
    return f"{functions} in {files}{skipped}; findings: {', '.join(counts)} ({scan.seconds:.1f} s)"
