"""Bugs planted in the runner itself: each one is seen by a check that passes without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from conformance import footprint, joining, pool, rank, ranks
from conformance.member import Member
from conformance.pristine import Template
from tests.faults.running import new_pool, run


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    template = Template()
    yield template
    template.close()


def verdicts(template: Template, *wanted: tuple[str, str, int, float | None]) -> list[str]:
    running = new_pool(template)
    try:
        return [run(running, *each).outcome for each in wanted]
    finally:
        running.close()


KILLED = ("forward_killed", "test_fault", 2, None)
LATER = ("forward_killed", "test_later", 2, None)
LONE = ("backward_lone_error", "test_fault", 2, None)
HANGS = ("forward_stopped", "test_fault", 2, 0.5)
DTYPE = ("backward_environment", "test_fault", 2, None)


def rank_0_alone_counts(patch: pytest.MonkeyPatch) -> None:
    """What MultiProcessTestCase does: rank 0's word is taken for all."""
    patch.setattr(pool, "joined", lambda item, outcomes, seconds: joining.joined(item, outcomes[:1], seconds))


def exit_status_0_is_good(patch: pytest.MonkeyPatch) -> None:
    ended = Member.ended

    def lenient(self: Member, status: int | None) -> Any:
        found = ended(self, status)
        return replace(found, outcome="pass") if status == 0 else found

    patch.setattr(Member, "ended", lenient)


def a_late_rank_is_good(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ranks.World, "_late", lambda self, member, deadline, behind: member.found("pass", ""))


def a_rank_left_waiting_decides(patch: pytest.MonkeyPatch) -> None:
    def joined(item: Any, outcomes: Any, seconds: float) -> Any:
        return joining.joined(item, [replace(found, left_alone=False) for found in outcomes], seconds)

    patch.setattr(pool, "joined", joined)


def the_last_rank_decides(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pool, "joined", lambda item, outcomes, seconds: joining.joined(item, outcomes[-1:], seconds))


def a_broken_world_is_used_again(patch: pytest.MonkeyPatch) -> None:
    request = ranks.World.request

    def careless(self: ranks.World, message: Any, deadline: float) -> Any:
        outcomes = request(self, message, min(deadline, 3.0))
        self.usable = True
        return outcomes

    patch.setattr(ranks.World, "request", careless)


#: A planted bug, what is run, what comes out in a sound runner.
PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], list[tuple[str, str, int, float | None]], list[str]]] = [
    (rank_0_alone_counts, [KILLED], ["crash"]),
    (exit_status_0_is_good, [("forward_exit_0", "test_fault", 1, None)], ["crash"]),
    (a_late_rank_is_good, [HANGS], ["timeout"]),
    (a_rank_left_waiting_decides, [LONE], ["error"]),
    (the_last_rank_decides, [("backward_stays_out", "test_fault", 3, None)], ["fail"]),
    (a_broken_world_is_used_again, [KILLED, LATER], ["crash", "pass"]),
]


@pytest.mark.parametrize(("plant", "wanted", "sound"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_bug_planted_in_the_runner_shows(
    template: Template,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    wanted: list[tuple[str, str, int, float | None]],
    sound: list[str],
) -> None:
    monkeypatch.setattr(ranks, "GRACE", 0.4)
    if plant is not the_last_rank_decides:
        assert verdicts(template, *wanted) == sound
        plant(monkeypatch)
        assert verdicts(template, *wanted) != sound
    else:
        # Here the last rank's word is the right one; what is lost is what the others say.
        plain = told(template, wanted[0])
        plant(monkeypatch)
        assert "collectives differ" in plain
        assert "collectives differ" not in told(template, wanted[0])


def told(template: Template, wanted: tuple[str, str, int, float | None]) -> str:
    running = new_pool(template)
    try:
        return run(running, *wanted).message
    finally:
        running.close()


@pytest.mark.parametrize("fact", ["environment variables"])
def test_a_fact_that_the_footprint_forgets_shows(fact: str) -> None:
    """The ranks are forked from a process of their own, so that this bug is planted here and not there."""
    before, after = {fact: {"A": "1"}}, {fact: {"A": "2"}}
    assert footprint.differences(before, after) == [fact]
    assert footprint.differences({}, {}) == []
    assert rank.GROUP_TIMEOUT.total_seconds() >= 3600  # no group gives up before the controller does
