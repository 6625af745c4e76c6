"""The suite's tests as pytest items: each one runs on ranks, and fails with what the ranks said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from conformance.core import clauses
from conformance.core.errors import BROKE, RunnerError
from conformance.core.outcomes import TestOutcome
from conformance.core.output import shown
from conformance.core.plan import PlannedTest
from conformance.core.prose import prose
from conformance.plugin.attach import session_of
from conformance.plugin.stash import SESSION


class ClauseBroken(Exception):
    """An outcome that is not a pass."""


class SuiteModule(pytest.File):
    """A module of the suite. Its source was read by :mod:`conformance.core.catalog`; only ranks import it."""

    def collect(self) -> Iterable[RankItem]:
        """Called by pytest: the module's items, for every subject, world and case."""
        # pytest-xdist, whose mark it is, may not be there.
        self.config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")
        tests = session_of(self.config).tests
        for place, planned in enumerate(tests):
            if planned.test.file == self.path:
                item = RankItem.from_parent(self, name=planned.name, planned=planned, place=place)
                # With pytest-xdist, tests that share a world of ranks go to one worker.
                item.add_marker(pytest.mark.xdist_group(planned.shared))
                yield item


class RankItem(pytest.Item):
    """One test of one subject in one world."""

    def __init__(self, *, planned: PlannedTest, place: int, **options: Any) -> None:
        super().__init__(**options)
        self.planned = planned
        self.place = place
        self.conformance_outcome: TestOutcome | None = None

    def runtest(self) -> None:
        """Called by pytest: run on the ranks, and turn the joined outcome into pytest's own."""
        pool = self.config.stash[SESSION].pool
        try:
            outcome = pool.run(self.planned)
        except RunnerError as error:
            pytest.exit(shown(str(error)), returncode=BROKE)
        self.conformance_outcome = outcome
        if outcome.outcome in {"skip", "not-applicable"}:
            pytest.skip(shown(f"{outcome.outcome}: {outcome.reason}"))
        if outcome.outcome != "pass" and clauses.registry(outcome.spec)[outcome.clause].level == "may":
            pytest.xfail(told(outcome))  # it is shown, and fails nothing
        if outcome.outcome != "pass":
            raise ClauseBroken(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        """Called by pytest for a failure: the clause, what the ranks said, and how to run it alone."""
        if isinstance(excinfo.value, ClauseBroken) and self.conformance_outcome is not None:
            return told(self.conformance_outcome)
        return super().repr_failure(excinfo, *args)

    def reportinfo(self) -> tuple[Any, int, str]:
        """Called by pytest: the file and line of the test."""
        return self.path, self.planned.test.line - 1, self.name


def told(outcome: TestOutcome) -> str:
    """Return the text of a failure, for pytest's own reports."""
    clause = clauses.registry(outcome.spec)[outcome.clause]
    lines = [f"{clause.id} ({clause.level}): {prose(clause.text)}", f"{outcome.outcome}: {outcome.message}"]
    likely = f"looks like: {outcome.likely}"
    lines += [likely] if outcome.likely and likely not in outcome.message else []
    lines += [f"reproduce: {outcome.reproduce}"]
    return shown("\n".join(lines))


def planned(items: Iterable[pytest.Item]) -> list[PlannedTest]:
    """Return the planned tests of the suite's items."""
    return [item.planned for item in items if isinstance(item, RankItem)]


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put the suite's items into the order of the plan; other items keep their places."""
    ours = iter(sorted((item for item in items if isinstance(item, RankItem)), key=lambda item: item.place))
    return [next(ours) if isinstance(item, RankItem) else item for item in items]
