"""Does many small jobs on ranks, a few at a time."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from conformance.core.outcomes import RankOutcome, TestOutcome
from conformance.core.plan import PlannedTest
from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Pool
from conformance.ranks.preloads import TRANSFORMS

#: What hangs costs time and no work: more jobs at once than there are cores. A GPU's memory has room for eight.
WORKERS = min(2 * (os.cpu_count() or 2), 8)
#: How long a test may take that compiles, and comes after all others (seconds).
COMPILING = 20.0

Result = TypeVar("Result")


class Hasty(Pool):
    """Looks at a failure once: nobody reads its words here. What hangs is soon given up, but the compiler is slow."""

    def run(self, item: PlannedTest) -> TestOutcome:
        """Run one test on all its ranks."""
        if item.test.compiles:
            self.settings = replace(self.settings, timeout=COMPILING)
        return super().run(item)

    def _second_look(self, item: PlannedTest, outcomes: list[RankOutcome]) -> list[RankOutcome]:
        return outcomes

    def _outcome_alone(self, item: PlannedTest, outcome: TestOutcome) -> None:
        return None


def side_by_side(jobs: Sequence[Callable[[Forkserver], Result]], said: Callable[[Result], None]) -> list[Result]:
    """What the jobs return, in their order; each thread has a forkserver of its own, and only one calls ``said``."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(jobs)):
        waiting.put(place)
    results: dict[int, Result] = {}
    problems: list[BaseException] = []
    saying = threading.Lock()

    def work() -> None:
        forkserver = Forkserver()
        forkserver.preload(TRANSFORMS)  # once here, and not in the first ranks of all
        try:
            while not problems:
                place = waiting.get_nowait()
                results[place] = jobs[place](forkserver)
                with saying:
                    said(results[place])
        except queue.Empty:
            pass
        except BaseException as problem:  # for the main thread
            problems.append(problem)
        finally:
            forkserver.close()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return [results[place] for place in range(len(jobs))]
