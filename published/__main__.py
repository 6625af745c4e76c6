"""``python -m published``: install what is pinned, run the suite on it, show and record the verdicts."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance.core.errors import BAD_USAGE
from published.packages import PACKAGES, Package, install, package
from published.result import Row, beyond, dated, merge, rows, show
from published.run import Judged, judged
from published.table import entries

DATA = Path("docs/data")
RESULTS = DATA / "published.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command; return status 1 if a verdict differs from the recorded one."""
    given = _parser().parse_args(arguments)
    if given.update and given.backend:
        print("--update goes without --backend: the site shows the verdicts on Gloo", file=sys.stderr)
        return BAD_USAGE
    try:
        chosen = tuple(package(name) for name in given.names) or PACKAGES
    except KeyError as error:
        name = str(error.args[0])
        near = difflib.get_close_matches(name, [entry.key for entry in PACKAGES], 1)
        hint = f"did you mean {near[0]}?" if near else f"published/packages.py has the names of all {len(PACKAGES)}"
        print(f"no package {name} in the table; {hint}", file=sys.stderr)
        return BAD_USAGE
    results, table = Path(given.into) / file_of(given.device), []
    with ThreadPoolExecutor(given.jobs) as workers:
        for found in workers.map(lambda one: _one(one, given), chosen):
            own = [row for result in found for row in rows(result)]
            if given.device != "cpu":
                own = beyond(own, _on_record(RESULTS))
            if given.update:  # as soon as it is known: a run over all packages takes long, and may be ended
                merge(dated(own), results)
            if given.report:
                for result in found:
                    result.keep(Path(given.report))
            table += own
    show(table)
    return 0 if given.update else _news(table, results)


def file_of(device: str) -> str:
    """Where the verdicts on a device are kept; for an accelerator, those findings alone that the CPU does not show."""
    return RESULTS.name if device == "cpu" else f"published-{device.partition(':')[0]}.json"


def _one(entry: Package, given: argparse.Namespace) -> list[Judged]:
    try:
        install(entry)
    except RuntimeError as error:
        return [Judged.not_installed(one, str(error)) for one in entries((entry,))]
    found = judged(entry, entries((entry,)), given.ranks, given.timeout, given.device, given.backend)
    print(f"{entry.label}: {len(entries((entry,)))} subjects", file=sys.stderr)
    return found


def _on_record(results: Path) -> dict[str, Row]:
    return {row.reference: row for row in Row.read(results)} if results.exists() else {}


def _news(table: list[Row], results: Path) -> int:
    """Print verdicts that differ from the recorded ones; return status 1 if there are any."""
    known = _on_record(results)
    news = [row for row in table if row.reference not in known or not row.same_as(known[row.reference])]
    for row in news:
        before = known[row.reference].summary if row.reference in known else "not on record"
        print(f"{row.reference}: {row.summary}; {results} says: {before}", file=sys.stderr)
    return int(bool(news))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m published", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="packages; all where none is named")
    parser.add_argument("--report", metavar="DIR", help="also write report.json and the rest for each package")
    parser.add_argument("--ranks", default=(1, 2, 3), type=_ranks, help="worlds for the gathers (default 1,2,3)")
    parser.add_argument("--device", default="cpu", help="where they run: cpu (default), emulated, cuda, ...")
    parser.add_argument("--backend", default="", help="what the ranks talk over, such as simulated")
    parser.add_argument("--timeout", default=120.0, type=float, help="deadline of a test, in seconds")
    parser.add_argument("--jobs", default=2, type=int, help="packages that are tested side by side (default 2)")
    parser.add_argument("--update", action="store_true", help="write the verdicts, for the site")
    parser.add_argument("--into", metavar="DIR", default=DATA, help=f"where they are kept (default {DATA})")
    return parser


def _ranks(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
