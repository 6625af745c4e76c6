"""What an accelerator costs a rank, its start and the memory of its driver, is no test's: shown without one."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from conformance.core.outcomes import RankOutcome
from conformance.kit.process import growth
from conformance.ranks import worker
from conformance.ranks.group import RankGroup
from conformance.ranks.pool import Pool
from conformance.ranks.settings import GROUPS_ON_DEVICES, Settings
from tests.faults.running import item


class NotedRanks(RankGroup):
    """Ranks that pass every test at once; the deadlines that they were given are noted."""

    def __init__(self, noted: list[float], size: int) -> None:
        self.noted, self.size = noted, size
        self.usable, self.refuses, self.knows_transforms = True, False, False

    def request(self, message: dict[str, Any] | None, deadline: float) -> list[RankOutcome]:
        if message is not None and message["op"] == "test":
            self.noted.append(deadline)
        return [RankOutcome(rank, "pass") for rank in range(self.size)]

    def details(self) -> list[dict[str, Any]]:
        return [{}] * self.size

    def close(self) -> None:
        pass


def deadline_of(device: str, own: float | None, timeout: float = 30.0) -> float:
    """How long ranks get for a test with its own deadline, in a run on a device that gives each test ``timeout``."""
    noted: list[float] = []
    forkserver = Mock(put_back=Mock(return_value=[]))
    settings = Settings(timeout=timeout, device=device)
    with Pool(forkserver, settings, lambda _, size, *__: NotedRanks(noted, size)) as pool:
        assert pool.run(item("Good", "test_calm", 2, own)).outcome == "pass"
    (deadline,) = noted
    return deadline


@pytest.mark.parametrize("device", ["cuda", "emulated:1"])
def test_a_test_in_a_hurry_gets_the_time_that_groups_take_to_start_on_a_device(device: str) -> None:
    assert deadline_of("cpu", 2.0) == 2.0
    assert deadline_of(device, 2.0) == 2.0 + GROUPS_ON_DEVICES


def test_no_test_gets_more_time_than_the_run_gives() -> None:
    assert [deadline_of("cuda", own) for own in (29.0, None)] == [30.0, 30.0]


def test_where_the_run_gives_a_slow_subject_more_time_so_does_a_test_in_a_hurry() -> None:
    assert [deadline_of("cpu", own, 300.0) for own in (3.0, 10.0, None)] == [30.0, 100.0, 300.0]
    assert [deadline_of("cpu", own, 6.0) for own in (3.0, 10.0, None)] == [3.0, 6.0, 6.0]


def test_what_a_driver_and_a_backend_take_is_not_what_tests_leave_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"host": 0, "device": 0}

    def grow(*_: object) -> None:
        memory["host"] += growth.MUCH_MEMORY + 1
        memory["device"] += growth.MUCH_MEMORY + 1

    monkeypatch.setattr(growth, "_memory", lambda: memory["host"])
    monkeypatch.setattr(growth, "_device_memory", lambda: memory["device"])
    monkeypatch.setattr(worker, "set_current_device", grow)  # a device that is made the current one starts its driver
    monkeypatch.setattr(worker.Rank, "join", grow)
    monkeypatch.setattr(worker.collectives, "recorded", MagicMock())  # it would stay in this process
    configuration = {"rank": 0, "size": 2, "backend": "nccl", "device": "cuda:0", "group": True}
    rank = worker.Rank(Mock(), configuration, os.memfd_create("log"), None)
    assert rank.growth.differences() == []
    grow()
    assert rank.growth.differences() == ["memory", "device memory"]
