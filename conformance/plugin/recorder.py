"""Records every outcome: on the progress line, in the journal, and in the report at the end."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from conformance.core.joining import joined
from conformance.core.outcomes import RankOutcome, TestOutcome
from conformance.plugin.items import RankItem, planned
from conformance.plugin.stash import SESSION
from conformance.report.model import Report
from conformance.run.journal import Journal
from conformance.run.session import Session


class Recorder:
    """The pytest plugin of one run: its session, and the outcomes so far."""

    def __init__(
        self,
        session: Session,
        on_start: Callable[[int], None],
        on_outcome: Callable[[TestOutcome], None],
        journal: Journal | None = None,
    ) -> None:
        self.session = session
        self.on_start, self.on_outcome = on_start, on_outcome
        self.journal = journal
        self.outcomes = {outcome.nodeid: outcome for outcome in (journal.outcomes if journal else ())}
        self.earlier = list(self.outcomes)
        self.engine_tested = ""
        self.workers_lost = 0
        self.selected: set[str] | None = None
        self.broken = ""
        self.began = time.time()
        self.output_lost = False

    def know(self, tested: str, outcomes: Iterable[TestOutcome]) -> None:
        """Take an earlier run's outcomes of PyTorch's own tests, and their date; these tests are not run again."""
        self.engine_tested = tested
        self.outcomes |= {outcome.nodeid: outcome for outcome in outcomes}
        self.earlier = list(self.outcomes)

    def pytest_configure(self, config: pytest.Config) -> None:
        """Called at start: the suite's collector takes this session and makes no other."""
        config.stash[SESSION] = self.session

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Called after collection: leave out the tests that an earlier run has finished."""
        items[:] = [item for item in items if not (isinstance(item, RankItem) and item.planned.nodeid in self.outcomes)]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Called once the tests are selected."""
        self._start({test.nodeid for test in planned(session.items)})

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Called by pytest-xdist for each worker: name the tests that an earlier run has finished.

        A worker that replaces another one must collect the same tests, whatever has been run since.
        """
        node.workerinput["conformance_done"] = self.earlier

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Called by pytest-xdist before workers start: keep their files out of the current directory."""
        for spec in specs:
            spec.python = shlex.join([sys.executable, "-P"])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Called by pytest-xdist: return the scheduler."""
        from conformance.plugin.scheduler import Scheduler

        return Scheduler(config, log, self.session.tests)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        """Called by pytest-xdist for each worker that has ended; another one takes the place of one that was lost."""
        self.workers_lost += error is not None

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Called by pytest-xdist for a test whose worker was lost."""
        test = next(test for test in self.session.tests if test.nodeid == crashitem)
        told = "the process that ran this test's ranks was killed (by the subject, or by the kernel: out of memory)"
        self._take(joined(test, [RankOutcome(rank, "error", told) for rank in range(test.size)], 0.0))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Called when a worker has collected; all collect the same."""
        if self.selected is None:
            self._start(set(ids))

    def _start(self, chosen: set[str]) -> None:
        self.selected = chosen | set(self.outcomes)
        self._show(lambda: self.on_start(len(chosen)))

    def _show(self, action: Callable[[], None]) -> None:
        """Advance the progress line; if the output is closed or full, the line ends and the run goes on."""
        if not self.output_lost:
            try:
                action()
            except (OSError, SystemExit) as error:  # rich makes a SystemExit of a closed pipe
                self.output_lost = True
                _raise_interrupt(error)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called for each phase of each test, in this process even when workers run them."""
        if hasattr(report, "conformance"):
            self._take(TestOutcome.from_text(report.conformance))

    def _take(self, outcome: TestOutcome) -> None:
        self.outcomes[outcome.nodeid] = outcome
        if self.journal is not None:
            self.journal.note(outcome)
        self._show(lambda: self.on_outcome(outcome))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each collector: one that fails means that the suite itself is broken."""
        if report.failed:
            self.broken = str(report.longrepr)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str]:
        """Called for what pytest would print: nothing, since the progress line shows it."""
        return report.outcome, "", ""

    @property
    def unrun(self) -> int:
        """Count the planned tests that have no outcome."""
        return len((self.selected or set()) - set(self.outcomes))

    @property
    def started(self) -> str:
        """Return when the run began, in ISO 8601."""
        return datetime.fromtimestamp(self.began, UTC).isoformat(timespec="seconds")

    def report(self, interrupted: bool) -> Report:
        """Judge everything that was planned."""
        tests = self.session.tests
        owed = {test.nodeid for test in tests}
        return self.session.report(
            tests,
            [outcome for name, outcome in self.outcomes.items() if name in owed],
            selected=self.selected,
            missing="not run: interrupted" if interrupted else "not run",
            started=self.started,
            engine_tested=self.engine_tested,
            seconds=round(time.time() - self.began, 3),
            interrupted=interrupted,
        )


def _raise_interrupt(error: BaseException) -> None:
    """Raise the interrupt that came while a line was drawn, if the failed write replaced it.

    A terminal that closes causes both at once: it sends SIGHUP, and accepts no more output.
    """
    before = error.__context__
    while before is not None:
        if isinstance(before, KeyboardInterrupt):
            raise before
        before = before.__context__
