"""A clause that fails nothing needs one broken test, and no more: the others may hang, or crash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.ranks.client import Forkserver
from tests.faults.running import item, new_pool


@pytest.mark.parametrize("told_once", [True, False])
def test_a_broken_test_settles_what_fails_nothing(forkserver: Forkserver, told_once: bool) -> None:
    fails, other = item("odd:Doubles", "test_fault", 2), item("odd:Doubles", "test_later", 2)
    fails, other = replace(fails, told_once=told_once), replace(other, told_once=told_once)
    assert fails.test.clause == other.test.clause
    with new_pool(forkserver) as pool:
        assert pool.run(fails).outcome == "fail"
        after = pool.run(other)
        assert after.outcome == ("skip" if told_once else "fail")
        assert after.reason.startswith("not run: another test already showed") is told_once
        pool.forget()
        assert pool.run(other).outcome == "fail"


def test_a_test_that_passes_settles_nothing(forkserver: Forkserver) -> None:
    with new_pool(forkserver) as pool:
        for name in ("test_calm", "test_later"):
            assert pool.run(replace(item("Good", name, 2), told_once=True)).outcome == "pass"


def test_another_subject_is_asked_all_the_same(forkserver: Forkserver) -> None:
    with new_pool(forkserver) as pool:
        assert pool.run(replace(item("odd:Doubles", "test_fault", 2), told_once=True)).outcome == "fail"
        assert pool.run(replace(item("Good", "test_fault", 2), told_once=True)).outcome == "pass"
