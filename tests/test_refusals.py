"""A subject that refuses every call is judged as on fresh ranks, and new ones are not started for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.core.outcomes import EARLIER_CALLS, TestOutcome
from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Pool
from tests.faults.running import new_pool, run

TESTS = ("test_calm", "test_fault", "test_later")


@pytest.fixture
def pool(forkserver: Forkserver) -> Iterator[Pool]:
    with new_pool(forkserver) as pool:
        yield pool


def ranks(pool: Pool) -> list[int]:
    assert pool.group is not None
    return [rank.pid for rank in pool.group.ranks]


def told(outcome: TestOutcome) -> list[tuple[str, str, str]]:
    return [(rank.outcome, rank.message, rank.likely) for rank in outcome.ranks]


def on_fresh_ranks(forkserver: Forkserver, subject: str, size: int) -> list[list[tuple[str, str, str]]]:
    found = []
    for test in TESTS:
        with new_pool(forkserver) as pool:
            found.append(told(run(pool, subject, test, size)))
    return found


@pytest.mark.parametrize("size", [1, 2])
def test_ranks_that_refuse_every_call_serve_the_next_test(pool: Pool, size: int) -> None:
    found, served = [], []
    for test in TESTS:
        found.append(run(pool, "odd:Refuses", test, size))
        served.append(ranks(pool))
    assert [outcome.outcome for outcome in found] == ["error"] * 3
    words = [f"TypeError: {number} elements are not what it takes" for number in (5, 7, 4)]
    assert all(word in rank.message for outcome, word in zip(found, words, strict=True) for rank in outcome.ranks)
    assert served == [served[0]] * 3
    assert run(pool, "Good", "test_calm", size).outcome == "pass"
    assert ranks(pool) != served[0]


@pytest.mark.parametrize("name", ["Refuses", "RefusesLate", "RefusesOnce", "RefusesAnew"])
def test_what_is_said_is_what_fresh_ranks_say(pool: Pool, forkserver: Forkserver, name: str) -> None:
    alone = on_fresh_ranks(forkserver, f"odd:{name}", 2)
    assert [told(run(pool, f"odd:{name}", test, 2)) for test in TESTS] == alone
    assert {outcome for ranks in alone for outcome, _, _ in ranks} == {"error"}


def test_ranks_that_raised_after_a_collective_are_replaced(pool: Pool) -> None:
    assert run(pool, "odd:RefusesLate", "test_calm", 2).outcome == "error"
    before = ranks(pool)
    assert run(pool, "odd:RefusesLate", "test_later", 2).outcome == "error"
    assert not set(before) & set(ranks(pool))


def test_a_call_that_came_back_may_be_why_the_next_one_is_refused(pool: Pool) -> None:
    assert run(pool, "odd:RefusesLater", "test_calm", 1).outcome == "pass"
    refused = run(pool, "odd:RefusesLater", "test_later", 1)
    assert (refused.outcome, refused.likely) == ("error", EARLIER_CALLS)


def test_a_rank_that_is_gone_serves_no_test(pool: Pool) -> None:
    """Where the suite's own code raises, the rank tells of an error, and ends."""
    assert run(pool, "vandals:forward_audit_hook", "test_fault", 1).outcome == "error"
    later = run(pool, "vandals:forward_audit_hook", "test_later", 1)
    assert later.outcome == "pass", later.message
