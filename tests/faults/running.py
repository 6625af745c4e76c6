"""Runs the small suite, item by item, on a pool of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.core import catalog
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Pool
from conformance.ranks.settings import Settings

HERE = Path(__file__).parent
SUITE = HERE / "suite"
PATH = (str(HERE), str(SUITE))
SPEC = "AllGatherGradAutograd"
TESTS = {test.function: test for test in catalog.suite(SUITE)}
#: What a test that nothing is wrong with may take on a busy machine (seconds).
PATIENT = 60.0


def new_pool(forkserver: Forkserver, **settings: Any) -> Pool:
    """A pool whose ranks find the hostile subjects and the small suite."""
    return Pool(forkserver, Settings(**{"timeout": PATIENT, "path": PATH, **settings}))


def item(subject: str, test: str, size: int, deadline: float | None = None) -> PlannedTest:
    """One test of one hostile subject."""
    found = replace(TESTS[test], module="test_small", deadline=deadline)
    reference = subject if ":" in subject else f"hostile:{subject}"
    return PlannedTest(found, SubjectRef(reference, SPEC, None, reference), size, True, ())


def run(pool: Pool, subject: str, test: str, size: int, deadline: float | None = None) -> TestOutcome:
    """Run one test of one hostile subject."""
    return pool.run(item(subject, test, size, deadline))
