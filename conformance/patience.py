"""When to stop waiting for a subject that hangs in test after test."""

from __future__ import annotations

from conformance.outcome import TestOutcome
from conformance.plan import Item

#: A subject that has used up its deadline in so many tests in a row is not run further.
ROW = 3


class Patience:
    """Counts each subject's timeouts in a row. Tests with a deadline of their own expect hangs: they do not count."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def why_not(self, item: Item) -> str:
        """Why an item is not run; empty where it is."""
        if self.rows.get(item.label, 0) < ROW:
            return ""
        return (
            f"not run: {ROW} tests in a row of this subject had not finished in time; "
            "give a larger --timeout if it is only slow, or run this test alone with -k"
        )

    def note(self, item: Item, outcome: TestOutcome) -> None:
        """Count what a test that was run gave."""
        if outcome.outcome == "timeout" and item.test.deadline is None:
            self.rows[item.label] = self.rows.get(item.label, 0) + 1
        elif outcome.outcome != "timeout":
            self.rows[item.label] = 0
