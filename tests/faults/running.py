"""Runs the small suite, item by item, on a pool of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
TESTS = {
    test.function: test for file in sorted(SUITE.glob("test_*.py")) for test in catalog.tests_in(file, catalog.PACKAGE)
}
#: What a test that nothing is wrong with may take (seconds): as long as usual, for a larger one makes deadlines grow.
PATIENT = Settings.timeout
#: What a rank that hangs is given (seconds).
HURRY = 0.6


def new_pool(forkserver: Forkserver, **settings: Any) -> Pool:
    """A pool whose ranks find the hostile subjects and the small suite."""
    return Pool(forkserver, Settings(**{"timeout": PATIENT, "path": PATH, **settings}))


@contextmanager
def shared_pool(forkserver: Forkserver) -> Iterator[Pool]:
    """A pool for one fault after another, none of which a test after them notices."""
    with new_pool(forkserver) as pool:
        yield pool
        for size in (2, 4):
            expect_calm(pool, "Good", size)


def item(subject: str, test: str, size: int, deadline: float | None = None) -> PlannedTest:
    """One test of one hostile subject."""
    found = replace(TESTS[test], module="test_small", deadline=deadline)
    reference = subject if ":" in subject else f"hostile:{subject}"
    return PlannedTest(found, SubjectRef(reference, SPEC, None, reference), size, True, ())


def run(pool: Pool, subject: str, test: str, size: int, deadline: float | None = None) -> TestOutcome:
    """Run one test of one hostile subject."""
    return pool.run(item(subject, test, size, deadline))


def run_among_others(pool: Pool, subject: str, size: int, fitting: set[str], said: str) -> TestOutcome:
    """Run the test that goes wrong: its outcome fits, the report says why, and no test before or after it notices.

    The test before it is of another subject than the fault before, and comes after that one; the pool ends with such a
    test, too.
    """
    deadline = HURRY if "timeout" in fitting else PATIENT
    expect_calm(pool, subject, size)
    outcome = run(pool, subject, "test_fault", size, deadline)
    later = run(pool, subject, "test_later", size)
    assert later.outcome == "pass", words(later)
    assert outcome.outcome in fitting, words(outcome)
    assert said.format(size=size, last=size - 1) in words(outcome), words(outcome)
    assert [rank.rank for rank in outcome.ranks] == list(range(size))
    return outcome


def expect_calm(pool: Pool, subject: str, size: int) -> None:
    """Expect a test to pass in which nothing happens, whatever the subjects before it did."""
    outcome = run(pool, subject, "test_calm", size)
    assert outcome.outcome == "pass", words(outcome)


def words(outcome: TestOutcome) -> str:
    """All that the report has of a test."""
    said = [outcome.message]
    for rank in outcome.ranks:
        said += [rank.message, rank.stack, *rank.changed]
    return "\n".join(said)
