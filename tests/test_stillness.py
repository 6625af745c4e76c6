"""A rank that raised is told that it is alone once the others only wait: not while they compute, nor afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from conformance.ranks import procfs
from conformance.ranks.group import RankGroup
from conformance.ranks.stillness import LONG, Stillness

WAITS = "import time; print('ready', flush=True); time.sleep(60)"
WORKS = "print('ready', flush=True)\nwhile True: pass"

#: It waits for a copy of itself that works, until nobody waits for it any more.
HAS_IT_DONE = """
import os
own = os.getpid()
if os.fork():
    print('ready', flush=True)
    os.wait()
while os.getppid() == own: pass
"""


@pytest.fixture
def process(request):
    """A process that waits, or works."""
    with subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE) as started:
        started.stdout.readline()
        time.sleep(0.2)
        yield started.pid
        started.kill()


@pytest.mark.parametrize(
    ("process", "still"), [(WAITS, True), (WORKS, False), (HAS_IT_DONE, False)], indirect=["process"]
)
def test_a_process_is_still_where_it_takes_no_time_and_wants_none(process, still):
    stillness = Stillness()
    assert not stillness.of([process], 10.0)
    assert not stillness.of([process], 10.0 + LONG / 2)
    assert stillness.of([process], 10.1 + LONG) is still


@pytest.mark.parametrize("process", [WORKS], indirect=True)
def test_a_process_that_gets_no_time_but_would_take_it_is_not_still(process):
    os.kill(process, signal.SIGSTOP)
    stillness = Stillness()
    stillness.of([process], 0.0)
    os.kill(process, signal.SIGCONT)
    assert not stillness.of([process], 2 * LONG)


@pytest.mark.parametrize(("ticks", "still"), [([7, 8, 9], True), ([7, 8, 30], False), ([7, 40, 40], False)])
def test_a_thread_that_wakes_up_a_hundred_times_a_second_is_still(monkeypatch, ticks, still):
    read, runs = iter(ticks), iter([True, False])
    monkeypatch.setattr(procfs, "ticks", lambda pid: next(read))
    monkeypatch.setattr(procfs, "would_run", lambda pid: next(runs))
    stillness = Stillness()
    assert [stillness.of([1], now) for now in (10.0, 10.6, 10.1 + LONG)] == [False, False, still]


def test_no_process_is_not_still():
    assert not Stillness().of([], 2 * LONG)


def test_nobody_is_still_where_nothing_is_known_of_processes(monkeypatch):
    monkeypatch.setattr(procfs, "is_there", lambda: False)
    stillness = Stillness()
    assert not stillness.of([os.getpid() + 1_000_000], 10.0)
    assert not stillness.of([os.getpid() + 1_000_000], 10.1 + LONG)


def rank(collectives=(), outcome="", **state):
    told = []
    return SimpleNamespace(
        pid=0,
        finished=bool(outcome),
        outcome=outcome,
        collectives=collectives,
        told=told,
        leave_alone=lambda: told.append("alone"),
        **state,
    )


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"raised": True, "offered": [1]}, {"raised": False, "offered": []}, ["alone"]),
        ({"raised": False, "offered": [1]}, {"raised": False, "offered": []}, []),
        ({"raised": True, "offered": []}, {"raised": False, "offered": []}, []),  # it has had its answer since
        ({"raised": True, "offered": [1]}, {"raised": False, "offered": [1]}, []),
    ],
)
def test_a_rank_that_raised_and_waits_for_an_answer_is_told(first, second, told):
    group = RankGroup.__new__(RankGroup)
    group.ranks, group.stillness = [rank(**first), rank(**second)], Stillness()
    for now in (10.0, 10.1 + LONG):  # no process has the id 0, so none takes any time
        group._tell_who_is_alone(now)
    assert group.ranks[0].told == told


@pytest.mark.parametrize(
    ("entered", "told"),
    [(["all_reduce(x)"], ["alone"]), (["broadcast(x)"], []), (["all_reduce(x) among ranks 0,1"], []), ([], [])],
)
def test_it_is_told_sooner_where_a_collective_cannot_end_without_it(entered, told):
    group = RankGroup.__new__(RankGroup)
    group.ranks = [rank(raised=True, offered=[1]), rank(raised=False, offered=[], collectives=entered)]
    group.stillness = Stillness()
    for now in (10.0, 10.0 + LONG / 2):
        group._tell_who_is_alone(now)
    assert group.ranks[0].told == told


@pytest.mark.parametrize(
    ("outcome", "others", "waits"),
    [
        ("error", {"offered": [], "collectives": ["all_reduce(x)"]}, True),
        ("error", {"offered": [1]}, True),
        ("error", {"offered": []}, False),  # it still computes
        ("pass", {"offered": [], "collectives": ["all_reduce(x)"]}, False),
    ],
)
def test_who_waits_for_a_rank_that_has_ended(outcome, others, waits):
    group = RankGroup.__new__(RankGroup)
    group.ranks = [rank(outcome=outcome, offered=[]), rank(**others)]
    assert bool(group._waiting_for_one_that_ended({"error"})) is waits
