"""Bugs planted in the runner itself: each one is seen by a check that passes without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.core import joining
from conformance.ranks import clock, group, pool, worker
from conformance.ranks.client import Forkserver
from conformance.ranks.process import RankProcess
from tests.faults.running import new_pool, run


def verdicts(forkserver: Forkserver, *wanted: tuple[str, str, int, float | None]) -> list[str]:
    running = new_pool(forkserver)
    try:
        return [run(running, *each).outcome for each in wanted]
    finally:
        running.close()


KILLED = ("forward_killed", "test_fault", 2, None)
LATER = ("forward_killed", "test_later", 2, None)
LONE = ("backward_lone_error", "test_fault", 2, None)
EXTRA = [("end_extra_collective", "test_fault", 2, None), ("end_extra_collective", "test_later", 2, 5.0)]
HANGS = ("forward_stopped", "test_fault", 2, 0.5)


def rank_0_alone_counts(patch: pytest.MonkeyPatch) -> None:
    """What MultiProcessTestCase does: rank 0's word is taken for all."""
    patch.setattr(pool, "joined", lambda item, outcomes, seconds: joining.joined(item, outcomes[:1], seconds))


def exit_status_0_is_good(patch: pytest.MonkeyPatch) -> None:
    ended = RankProcess.ended

    def lenient(self: RankProcess, status: int | None) -> Any:
        found = ended(self, status)
        return replace(found, outcome="pass") if status == 0 else found

    patch.setattr(RankProcess, "ended", lenient)


def a_late_rank_is_good(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group.RankGroup, "_late", lambda self, member, deadline, behind: member.found("pass", ""))


def a_rank_left_waiting_decides(patch: pytest.MonkeyPatch) -> None:
    def joined(item: Any, outcomes: Any, seconds: float) -> Any:
        return joining.joined(item, [replace(found, bystander=False) for found in outcomes], seconds)

    patch.setattr(pool, "joined", joined)


def a_broken_world_is_used_again(patch: pytest.MonkeyPatch) -> None:
    request = group.RankGroup.request

    def careless(self: group.RankGroup, message: Any, deadline: float) -> Any:
        outcomes = request(self, message, min(deadline, 3.0))
        self.usable = True
        return outcomes

    patch.setattr(group.RankGroup, "request", careless)
    patch.setattr(group.RankGroup, "is_sound", True)  # nor does anybody look before the next request


def collectives_are_not_compared_when_all_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group, "matching", lambda outcomes: True)


#: A planted bug, what is run, what comes out in a sound runner.
PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], list[tuple[str, str, int, float | None]], list[str]]] = [
    (rank_0_alone_counts, [KILLED], ["crash"]),
    (exit_status_0_is_good, [("forward_exit_0", "test_fault", 1, None)], ["crash"]),
    (a_late_rank_is_good, [HANGS], ["timeout"]),
    (a_rank_left_waiting_decides, [LONE], ["error"]),
    (a_broken_world_is_used_again, [KILLED, LATER], ["crash", "pass"]),
    (collectives_are_not_compared_when_all_pass, EXTRA, ["pass", "pass"]),
]


@pytest.mark.parametrize(("plant", "wanted", "sound"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_bug_planted_in_the_runner_shows(
    forkserver: Forkserver,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    wanted: list[tuple[str, str, int, float | None]],
    sound: list[str],
) -> None:
    monkeypatch.setattr(clock, "GRACE", 0.4)
    assert verdicts(forkserver, *wanted) == sound
    plant(monkeypatch)
    assert verdicts(forkserver, *wanted) != sound


def test_words_of_other_ranks_that_are_dropped_show(forkserver: Forkserver, monkeypatch: pytest.MonkeyPatch) -> None:
    def last_alone(item: Any, outcomes: Any, seconds: float) -> Any:
        return joining.joined(item, outcomes[-1:], seconds)

    monkeypatch.setattr(clock, "GRACE", 0.4)
    running = new_pool(forkserver)
    try:
        sound = run(running, "backward_stays_out", "test_fault", 3).message
        monkeypatch.setattr(pool, "joined", last_alone)
        assert "collectives differ" in sound
        assert "collectives differ" not in run(running, "backward_stays_out", "test_fault", 3).message
    finally:
        running.close()


def test_no_group_gives_up_before_the_controller_does() -> None:
    assert worker.GROUP_TIMEOUT.total_seconds() >= 3600
