"""A subject that is slow is not accused: deadlines count processor time, and follow what a call takes."""

from __future__ import annotations

import pytest

from conformance.ranks import clock, procfs
from conformance.ranks.clock import TICK, RunningTime
from tests.faults.command import reported, run
from tests.modules import module


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1.0), (clock.COMPUTES / 2, 1.0), (0.25, 0.25), (1.0, 1.0), (2.0, 1.0)],
    ids=["waits", "polls", "gets a quarter", "gets all", "computes in two threads"],
)
def test_time_is_what_ranks_get_if_they_compute(monkeypatch, share, expected):
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(procfs, "processor_seconds", lambda pid: now[0] * share)
    monkeypatch.setattr(procfs, "would_run", lambda pid: share >= 0.25)
    running = RunningTime()
    running.read([1])
    for _ in range(21):
        now[0] += TICK
        running.read([1])
    start = running.seconds
    for _ in range(20):
        now[0] += TICK
        running.read([1])
    assert running.seconds - start == pytest.approx(20 * TICK * expected)


def test_time_in_which_a_rank_waits_for_a_processor_is_not_its_own(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(procfs, "processor_seconds", lambda pid: now[0] * 0.05)
    monkeypatch.setattr(procfs, "would_run", lambda pid: True)
    running = RunningTime()
    for _ in range(41):
        now[0] += TICK
        running.read([1])
    assert running.seconds == pytest.approx(41 * TICK * 0.05, abs=TICK)


def test_time_in_which_the_controller_was_stopped_counts_as_a_tick(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(procfs, "processor_seconds", lambda pid: 0.0)
    monkeypatch.setattr(procfs, "would_run", lambda pid: False)
    running = RunningTime()
    for gap in (TICK, 100.0, TICK):
        now[0] += gap
        running.read([1])
    assert running.seconds == pytest.approx(3 * TICK)


SLOW = """

import time

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass

def several():
    return {samples} * list(inputs())
"""


@pytest.mark.parametrize(
    ("forward", "backward", "samples"),
    [(0.1, 0.0, 1), (0.001, 0.0, 80), (0.0, 0.3, 1)],
    ids=["slow", "many samples", "slow outside of its calls"],
)
def test_a_slow_subject_has_time_for_many_calls_with_each_sample(tmp_path, forward, backward, samples):
    source = module("Slow", f"burn({forward})\nreturn x * 2", f"burn({backward})\nreturn grad * 2")
    (tmp_path / "layers.py").write_text(source + SLOW.format(samples=samples))
    words = ("layers:Slow", "--inputs", "layers:several", "--ranks", "1", "--timeout", "1.5")
    run("run", *words, "-k", "test_gradient_is_the_derivative", "--report", "out", cwd=tmp_path)
    (test,) = [
        test for test in reported(tmp_path / "out" / "report.json", "layers:Slow") if test["reason"] != "not selected"
    ]
    assert test["outcome"] == "pass", test
