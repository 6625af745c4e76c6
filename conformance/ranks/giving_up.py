"""Decide when to stop running a subject's tests: it hangs repeatedly, kills the forkserver, or has failed enough."""

from __future__ import annotations

from collections import Counter

from conformance.core.outcomes import BROKEN, TestOutcome
from conformance.core.plan import PlannedTest

#: After this many timeouts in a row, the rest of a subject's tests are skipped.
ROW = 3
#: After killing the forkserver this often, the rest of a subject's tests are skipped.
KILLS = 2


class GiveUpRule:
    """Count each subject's timeouts in a row. Tests with a deadline of their own expect hangs and do not count."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.told: set[tuple[str, str]] = set()

    def why_not(self, item: PlannedTest) -> str:
        """Say why a test is not run; empty if it is."""
        if self.rows[item.label] >= ROW:
            return (
                f"not run: {ROW} tests of this subject in a row hung; mend that first, "
                "or raise --timeout if it is only slow; -k runs this test alone"
            )
        if self.kills[item.label] >= KILLS:
            return "not run: this subject kills the forkserver, from which ranks come; run this test alone with -k"
        if (item.label, item.test.clause) in self.told:
            return "not run: another test already showed that this may clause does not hold; run it alone with -k"
        return ""

    def note(self, item: PlannedTest, outcome: TestOutcome) -> None:
        """Count the outcome of a test."""
        if item.told_once and outcome.outcome in BROKEN:
            self.told.add((item.label, item.test.clause))
        if outcome.outcome != "timeout":
            self.rows[item.label] = 0
        elif item.test.deadline is None:
            self.rows[item.label] += 1

    def killed(self, item: PlannedTest) -> None:
        """Count a test in which the forkserver was killed."""
        self.kills[item.label] += 1
