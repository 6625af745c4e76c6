"""Takes every test's outcome as it comes, shows it, writes it down, and makes the report of them at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import pytest

from conformance import clauses
from conformance.outcome import TestOutcome
from conformance.plan import Item
from conformance.plugin import SESSION
from conformance.report.model import Report
from conformance.session import Session, suite_version
from conformance.verdict import Planned, SubjectInfo, judge

JOURNAL = "outcomes.jsonl"


class Recorder:
    """A pytest plugin of one run: the run's session, and what has come of it so far."""

    def __init__(self, session: Session, started: Callable[[int], None], ended: Callable[[TestOutcome], None]) -> None:
        self.session = session
        self.started, self.ended = started, ended
        self.outcomes: dict[str, TestOutcome] = {}
        self.selected: set[str] | None = None
        self.broken = ""
        self.began = time.time()
        self.journal: TextIO | None = None

    def keep_journal(self, folder: Path) -> None:
        """Write each outcome to a file as it comes, so that a killed run can be resumed."""
        self.journal = (folder / JOURNAL).open("a", encoding="utf-8")

    def resume(self, folder: Path) -> None:
        """Take over the outcomes of an earlier run that did not end."""
        with (folder / JOURNAL).open(encoding="utf-8") as journal:
            for line in journal:
                outcome = _outcome_of(line)
                if outcome is not None:
                    self.outcomes[outcome.nodeid] = outcome

    def pytest_configure(self, config: pytest.Config) -> None:
        """Called at start: the suite's collector takes this session and makes no other."""
        config.stash[SESSION] = self.session

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Called after collection: what an earlier run has finished is not run again."""
        done = set(self.outcomes)
        items[:] = [item for item in items if getattr(getattr(item, "entry", None), "nodeid", None) not in done]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Called once the selection stands."""
        chosen = {item.entry.nodeid for item in session.items if hasattr(item, "entry")}
        self.selected = chosen | set(self.outcomes)
        self.session.pool.expects_transforms = any(item.entry.test.transforms for item in session.items)
        self.started(len(chosen))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called for each phase of each test, in this process even when workers run them."""
        data = getattr(report, "conformance", None)
        if data is None:
            return
        outcome = TestOutcome.from_json(data)
        self.outcomes[outcome.nodeid] = outcome
        if self.journal is not None:
            self.journal.write(json.dumps(data) + "\n")
            self.journal.flush()
        self.ended(outcome)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each collector: one that fails means that the suite itself is broken."""
        if report.failed:
            self.broken = str(report.longrepr)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str]:
        """Called for what pytest would print: nothing, since the progress line shows it."""
        return report.outcome, "", ""

    def report(self, interrupted: bool) -> Report:
        """The verdicts on everything that was planned."""
        items = self.session.items
        # Workers of pytest-xdist select by themselves; what they were told to leave out does not come back.
        selected = self.selected or set(self.outcomes) if interrupted else self.selected
        return judge(
            list(self.outcomes.values()),
            [_planned(item, selected) for item in items],
            _infos(items, self.session),
            clauses.registry(),
            self.session.environment,
            suite={"version": suite_version(), "clauses_sha256": clauses.digest()},
            missing="not run: interrupted" if interrupted else "not run",
            started=datetime.fromtimestamp(self.began, UTC).isoformat(timespec="seconds"),
            seconds=round(time.time() - self.began, 3),
            interrupted=interrupted,
        )


def _infos(items: Sequence[Item], session: Session) -> list[SubjectInfo]:
    return [SubjectInfo(subject.label, subject.spec) for subject in session.subjects]


def _planned(item: Item, selected: set[str] | None) -> Planned:
    left_out = selected is not None and item.nodeid not in selected
    reason = "not selected" if left_out else ""
    return Planned(item.nodeid, item.test.clause, item.label, item.spec, item.size, reason)


def _outcome_of(line: str) -> TestOutcome | None:
    try:
        return TestOutcome.from_json(json.loads(line))
    except (ValueError, TypeError, AttributeError):
        return None  # the line that was being written when the run was killed
