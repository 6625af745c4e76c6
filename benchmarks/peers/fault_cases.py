"""Three tests on all ranks, the second with a fault on the last rank: what a harness says of each, as JSON."""

from __future__ import annotations

import json
import sys
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tests" / "faults")]

WORLD, FAULT = int(sys.argv[1]), sys.argv[2]
#: Where a harness has a deadline of its own it is given this one (seconds).
DEADLINE = 45
SIZES = {"test_1_before": 5, "test_2_fault": 7, "test_3_after": 4}


def one_call(rank: int, size: int, elements: int) -> None:
    """Gather, differentiate, compare; seven elements set the fault off."""
    import hostile
    import torch

    x = torch.full((elements,), rank + 1.0, requires_grad=True)
    gathered = getattr(hostile, FAULT).apply(x)
    sum((place + 1) * entry.sum() for place, entry in enumerate(gathered)).backward()
    for place, entry in enumerate(gathered):
        assert torch.equal(entry.detach(), torch.full((elements,), place + 1.0))
    assert torch.equal(x.grad, torch.full((elements,), float(size * (rank + 1))))


class Said(unittest.TestResult):
    """Keeps each test's outcome and seconds, and prints them as they come."""

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Called by unittest."""
        super().startTest(test)
        self.began, self.word = time.perf_counter(), "pass"

    def addError(self, test: unittest.TestCase, err: object) -> None:  # noqa: N802
        """Called by unittest."""
        self.word = "error"

    def addFailure(self, test: unittest.TestCase, err: object) -> None:  # noqa: N802
        """Called by unittest."""
        self.word = "fail"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """Called by unittest."""
        self.word = "skip"

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Called by unittest."""
        said(test.id().rpartition(".")[2], self.word, time.perf_counter() - self.began)


def said(name: str, word: str, seconds: float) -> None:
    """Print one test's outcome."""
    print("SAID", json.dumps({"test": name, "outcome": word, "seconds": round(seconds, 3)}), flush=True)


def run_class(kind: type[unittest.TestCase]) -> None:
    """Run a class's tests in order."""
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
    suite.run(Said())
