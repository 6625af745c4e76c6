"""A failure that fresh ranks do not show: what earlier calls left behind is to blame, and the report says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.core.outcomes import EARLIER_CALLS, Outcome, RankOutcome
from conformance.ranks.pool import Pool
from tests.faults import command
from tests.faults.running import item as planned
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
    assert len(pool.ran) == 1


def test_a_rank_that_dies_again_if_the_tests_before_run_again_is_the_fault_of_earlier_calls(pool: Pool) -> None:
    assert run(pool, "odd:DiesAtItsSecondCall", "test_calm", 1).outcome == "pass"
    died = run(pool, "odd:DiesAtItsSecondCall", "test_fault", 1)
    assert (died.outcome, died.likely) == ("crash", EARLIER_CALLS)


DIED = RankOutcome(0, "crash", "killed by SIGABRT", signal="SIGABRT")
PASSED = RankOutcome(0, "pass")


@pytest.mark.parametrize(
    ("alone", "before", "last", "outcome", "said"),
    [
        ("not-applicable", [], [], "skip", "was killed by SIGABRT while it ran, because of what earlier calls left"),
        ("pass", [PASSED], [PASSED], "skip", "no rank died when this test ran again alone, or after the tests before"),
        ("pass", [PASSED], [DIED], "crash", "killed by SIGABRT"),
        ("pass", [DIED], [], "crash", "killed by SIGABRT"),
        ("crash", [], [], "crash", "killed by SIGABRT"),
    ],
)
def test_a_rank_that_dies_accuses_nobody_if_it_does_not_die_again(
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
    alone: Outcome,
    before: list[RankOutcome],
    last: list[RankOutcome],
    outcome: str,
    said: str,
) -> None:
    """A thread that earlier calls left running may end the process at any time, and so may PyTorch."""
    ends = iter([DIED, RankOutcome(0, alone, signal="SIGABRT" if alone == "crash" else ""), *before, *last])
    pool.fail_alone.clear()
    item = planned("odd:Counts", "test_calm", 1)
    monkeypatch.setattr(pool, "ran", [item, item])
    monkeypatch.setattr(pool, "_attempted", lambda item, run, again=True: [next(ends)])
    found = pool.run(item)
    assert (found.outcome, next(ends, None)) == (outcome, None)
    assert said in found.message + found.reason


def test_no_script_of_one_test_is_written_for_it(tmp_path: Path) -> None:
    words = ("--spec", "AllGatherGradAutograd", "--ranks", "2", "-k", "test_gradient_is_the_sum_over_ranks")
    status, out, err = command.run("run", "odd:Counts", *words, "--reproduce", "scripts", cwd=tmp_path)
    assert (status, err) == (1, "")
    assert "0 scripts in scripts" in out
    assert "without a script, for they need earlier calls of the same process: 1" in out
