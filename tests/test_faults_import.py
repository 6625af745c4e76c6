"""Subjects that cannot be imported, or not on every rank: judged like any other, and waited for once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.core.plan import SubjectRef
from conformance.ranks.client import Forkserver
from conformance.ranks.first_look import preflight
from conformance.ranks.pool import Pool
from conformance.ranks.starter import Key
from tests.faults.running import SPEC, new_pool, run


@pytest.fixture
def pool(forkserver: Forkserver) -> Iterator[Pool]:
    with new_pool(forkserver, timeout=30.0) as pool:
        yield pool


def test_a_slow_import_is_only_slow(pool: Pool) -> None:
    assert run(pool, "slow_import:Gather", "test_calm", 2).outcome == "pass"


def test_a_module_that_exits_is_a_crash_with_its_status(pool: Pool) -> None:
    outcome = run(pool, "exits_on_import:Gather", "test_calm", 2)
    assert outcome.outcome == "crash"
    assert [rank.exitcode for rank in outcome.ranks] == [5, 5]
    assert "while the subject was imported: the process exited with status 5" in outcome.message


def test_a_module_that_one_rank_cannot_import_is_an_error_of_that_rank(pool: Pool) -> None:
    for _ in range(2):
        outcome = run(pool, "raises_on_one:Gather", "test_calm", 2)
        assert outcome.outcome == "error"
        assert outcome.message.startswith("rank 1 of 2: while the subject was imported: ImportError: not on rank 1")
    assert run(pool, "raises_on_one:Gather", "test_calm", 1).outcome == "pass"
    assert run(pool, "Good", "test_calm", 2).outcome == "pass"


def test_a_module_that_hangs_is_waited_for_once(forkserver: Forkserver, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_pool(forkserver, timeout=0.5) as pool:
        assert preflight(pool, SubjectRef("hangs_on_import:Gather", SPEC))[0] == "timeout"
        started: list[Key] = []
        monkeypatch.setattr(pool.starter, "start", lambda key, *_: started.append(key))
        outcomes = [run(pool, "hangs_on_import:Gather", "test_calm", size) for size in (1, 2, 4)]
        assert started == []
    assert [outcome.outcome for outcome in outcomes] == ["timeout"] * 3
    assert [len(outcome.ranks) for outcome in outcomes] == [1, 2, 4]
    assert "while the subject was imported: did not finish within 0.5 s" in outcomes[0].message
    assert "hangs_on_import.py" in outcomes[0].ranks[0].stack


def test_a_module_that_hangs_on_one_rank_names_that_rank(forkserver: Forkserver) -> None:
    with new_pool(forkserver, timeout=1.5) as pool:
        outcome = run(pool, "hangs_on_one:Gather", "test_calm", 2)
    assert outcome.outcome == "timeout"
    assert outcome.message.startswith("rank 1 of 2: while the subject was imported: did not finish within 1.5 s")
