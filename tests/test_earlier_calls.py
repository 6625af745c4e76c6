"""A failure that fresh ranks do not show: what earlier calls left behind is to blame, and the report says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.core.outcomes import EARLIER_CALLS, Outcome, RankOutcome
from conformance.ranks.pool import Pool
from tests.faults import command
from tests.faults.running import run


def test_a_failure_that_needs_earlier_calls_says_so_and_how_to_see_it_again(pool: Pool) -> None:
    calm = run(pool, "odd:Counts", "test_calm", 2)
    assert (calm.outcome, calm.likely, calm.reproduce) == ("pass", "", "")
    failed = run(pool, "odd:Counts", "test_fault", 2)
    assert (failed.outcome, failed.likely) == ("fail", EARLIER_CALLS)
    assert "looks like" not in failed.message + "".join(rank.message for rank in failed.ranks)
    assert failed.reproduce == "conformance run odd:Counts --spec AllGatherGradAutograd --ranks 2"


def test_a_failure_that_fresh_ranks_show_as_well_is_not_put_down_to_earlier_calls(pool: Pool) -> None:
    assert run(pool, "odd:Doubles", "test_calm", 2).outcome == "fail"
    failed = run(pool, "odd:Doubles", "test_fault", 2)
    assert failed.outcome == "fail"
    assert failed.likely != EARLIER_CALLS
    assert " -k " in failed.reproduce


def test_the_first_test_of_fresh_ranks_is_not_run_again(pool: Pool) -> None:
    pool.close()
    assert run(pool, "odd:Doubles", "test_later", 2).outcome == "fail"
    assert pool.tests_run == 1


@pytest.mark.parametrize(
    ("alone", "outcome", "said"),
    [
        ("not-applicable", "skip", "a rank was killed by SIGABRT while it ran, because of what earlier calls left"),
        ("pass", "crash", "killed by SIGABRT"),
        ("crash", "crash", "killed by SIGABRT"),
    ],
)
def test_a_rank_that_dies_in_a_test_that_does_not_apply_accuses_nobody(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, alone: Outcome, outcome: str, said: str
) -> None:
    """A thread that earlier calls left running may end the process at any time."""
    died = RankOutcome(0, "crash", "killed by SIGABRT", signal="SIGABRT")
    ends = iter([[died], [replace(died, outcome=alone)]])
    pool.fail_alone.clear()
    monkeypatch.setattr(pool, "tests_run", 2)
    monkeypatch.setattr(pool, "_attempted", lambda item, run, again=True: next(ends))
    found = run(pool, "odd:Counts", "test_calm", 1)
    assert (found.outcome, next(ends, None)) == (outcome, None)
    assert said in found.message + found.reason


def test_no_script_of_one_test_is_written_for_it(tmp_path: Path) -> None:
    words = ("--spec", "AllGatherGradAutograd", "--ranks", "2", "-k", "test_gradient_is_the_sum_over_ranks")
    status, out, err = command.run("run", "odd:Counts", *words, "--reproduce", "scripts", cwd=tmp_path)
    assert (status, err) == (1, "")
    assert "0 scripts in scripts" in out
    assert "without a script, for they need earlier calls of the same process: 1" in out
