"""Assign tests to the workers of pytest-xdist: tests that share a world of ranks go to the same worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from conformance.core.plan import PlannedTest


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """pytest-xdist's scheduler, for workers that may be lost.

    pytest-xdist gives a test that killed its worker to the next worker, and so on until no more are started. And a
    worker that replaces another one waits forever with its last test, because each needs to know the next test.
    """

    def __init__(self, config: pytest.Config, log: Any, tests: Iterable[PlannedTest]) -> None:
        super().__init__(config, log)
        self.worlds = {test.nodeid: test.shared for test in tests}

    def remove_node(self, node: Any) -> str | None:
        """Called when a worker has ended: give back the test that was lost with it, and the rest to other workers."""
        units = self._unfinished(self.assigned_work.pop(node))
        if not units:
            return None
        running = next(iter(units.values()))
        lost = next(test for test, completed in running.items() if not completed)
        running[lost] = True
        self.workqueue.update(self._unfinished(units))
        for other in self.nodes:
            if other in self.registered_collections:
                self._reschedule(other)
        return lost

    @staticmethod
    def _unfinished(units: dict[str, dict[str, bool]]) -> dict[str, dict[str, bool]]:
        return {world: tests for world, tests in units.items() if not all(tests.values())}

    def _split_scope(self, nodeid: str) -> str:
        return self.worlds.get(nodeid, nodeid)

    def _reschedule(self, node: Any) -> None:
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)

    def _assign_work_unit(self, node: Any) -> None:
        super()._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()  # after the tests that it has
