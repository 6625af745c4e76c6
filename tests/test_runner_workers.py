"""Workers side by side (``-n``): one that ends in the middle of its work costs the test that it ran, and says so."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from conformance.plugin.recorder import Recorder
from tests.faults.command import FEW, reported, run
from tests.faults.running import SPEC

GATHER = ("--spec", SPEC, "--ranks", "2", "-k", FEW, "-n", "1", "--report", "out")


def outcomes(tmp_path: Path, subject: str) -> Counter[str]:
    tests = reported(tmp_path / "out" / "report.json", subject)
    return Counter(test["outcome"] for test in tests if test["reason"] != "not selected")


def test_a_worker_that_is_killed_costs_the_test_that_it_ran(tmp_path: Path) -> None:
    status, _, err = run("run", "kills_workers:Once", "hostile:Good", *GATHER, cwd=tmp_path)
    assert (status, err) == (1, "")
    bad = outcomes(tmp_path, "kills_workers:Once")
    assert bad["error"] == 1
    assert set(bad) == {"error", "pass"}
    assert set(outcomes(tmp_path, "hostile:Good")) == {"pass"}
    (lost,) = [test for test in reported(tmp_path / "out" / "report.json") if test["outcome"] == "error"]
    assert "the process that ran this test's ranks was killed" in lost["message"]


def test_workers_that_are_killed_again_and_again_are_said_and_the_report_is_written(tmp_path: Path) -> None:
    few = ("--", "--max-worker-restart=1")
    status, _, err = run("run", "hostile:Good", "kills_workers:Always", *GATHER, *few, cwd=tmp_path)
    assert status == 3
    (line,) = err.splitlines()
    assert line.startswith("conformance: worker processes ended")
    assert "tests were not run" in line
    assert set(outcomes(tmp_path, "hostile:Good")) == {"pass"}


def test_a_run_that_pytest_cannot_finish_is_said_and_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from conformance.cli.commands import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")  # of the user's own tests
    monkeypatch.setattr(Recorder, "pytest_collection_finish", lambda *_: 1 / 0)
    words = ("run", "spec_impl.torchlogix:GradFactor", "--spec", "GradFactor", "--ranks", "1", "--report", "out")
    environment = dict(os.environ)
    assert main(words) == 3
    assert dict(os.environ) == environment, "what a run sets for pytest is for that run alone"
    said = capsys.readouterr().err
    assert "the suite itself broke" in said
    assert "ZeroDivisionError" in said
    assert set(outcomes(tmp_path, "spec_impl.torchlogix:GradFactor")) == {"skip"}
