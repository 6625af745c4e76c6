"""Runs the suite on the subjects of one package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.core.options import RunOptions
from conformance.core.plan import SubjectRef
from conformance.ranks.first_look import preflight
from conformance.report.model import Report, SubjectResult
from conformance.run.session import Session
from published.packages import Package
from published.table import Entry


@dataclass(frozen=True)
class Judged:
    """A package's subjects and the report on them; without a report, why there is none."""

    package: Package
    entries: tuple[Entry, ...]
    report: Report | None
    problem: str = ""

    @classmethod
    def not_installed(cls, entry: Entry, problem: str) -> Judged:
        """A subject that could not be tested."""
        return cls(entry.package, (entry,), None, problem)

    def result(self, entry: Entry) -> SubjectResult | None:
        """What the report says of a subject."""
        subjects = self.report.subjects if self.report else ()
        return next((found for found in subjects if found.subject == entry.reference), None)

    def keep(self, folder: Path) -> None:
        """Write the full report of the package."""
        from conformance.report.files import prepare, write_all

        if self.report:
            home = str(folder / self.package.key)
            prepare(home)
            write_all(self.report, home)


def judged(
    package: Package, entries: Sequence[Entry], ranks: tuple[int, ...], timeout: float, device: str, backend: str
) -> list[Judged]:
    """Run all tests that concern the subjects of a package."""
    subjects = tuple(entry.reference for entry in entries)
    options = RunOptions(subjects=subjects, ranks=ranks, timeout=timeout, device=device, backend=backend, compile=False)
    with Session(options) as session:
        broken = _not_loadable(session, entries)
        if broken:
            rest = [entry for entry in entries if entry not in broken]
            found = [Judged.not_installed(entry, said) for entry, said in broken.items()]
            return [*(judged(package, rest, ranks, timeout, device, backend) if rest else []), *found]
        tests = [test for test in session.tests if test.subject]
        report = session.report(tests, list(session.run(tests)), engine=False)
    return [Judged(package, tuple(entries), report)]


def _not_loadable(session: Session, entries: Sequence[Entry]) -> dict[Entry, str]:
    """Subjects that cannot be imported: the adapter or a missing dependency is at fault, not the class."""
    found = {entry: preflight(session.pool, SubjectRef(entry.reference, "")) for entry in entries}
    return {entry: look.said for entry, look in found.items() if look.outcome != "pass"}
