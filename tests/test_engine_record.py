"""What PyTorch keeps of its own promises is tested once for each environment, and told with its date."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.core import clauses
from conformance.core.options import RunOptions
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest, plan, without_compiler
from conformance.run.engine_record import FRESH, EngineRecord, engine_record
from conformance.run.session import promised_tests
from tests.faults.command import run

TODAY = "2026-11-24T04:00:00+00:00"
OPTIONS = RunOptions(subjects=("layers:Scale",)).checked()
SUBJECT = ("run", "spec_impl.torchlogix:GradFactor", "--spec", "GradFactor", "--no-compile")


@pytest.fixture(scope="module")
def tests() -> list[PlannedTest]:
    return plan(promised_tests(), clauses.registry(), [], (1,))


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], EngineRecord | None]:
    """Makes the record of this environment, in a cache of its own."""
    monkeypatch.delenv(FRESH, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda: engine_record(OPTIONS, ())


def passed(tests: list[PlannedTest]) -> list[TestOutcome]:
    return [TestOutcome(test.nodeid, "pass", 0.1, test.test.clause) for test in tests]


def test_a_second_run_takes_what_the_first_found_and_says_when(tmp_path: Path) -> None:
    around = {FRESH: "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    reports = []
    for name in ("first", "second"):
        status, out, err = run(*SUBJECT, "--report", name, cwd=tmp_path, env=around)
        assert (status, err) == (0, ""), out
        reports.append((out, json.loads((tmp_path / name / "report.json").read_text())))
    (first, tested), (second, later) = reports
    day = tested["started"].partition("T")[0]
    assert "engine clauses\n" in first
    assert f"engine clauses (tested {day})\n" in second
    assert (tested["engine_tested"], later["engine_tested"]) == ("", tested["started"])
    assert later["engine"] == tested["engine"]  # to the second that each test took: none was run again
    assert verdicts(later) == verdicts(tested)


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    return {clause["id"]: clause["verdict"] for clause in report["subjects"][0]["clauses"]}


def test_a_record_is_read_as_it_was_written(tests: list[PlannedTest], record: Callable[[], EngineRecord]) -> None:
    assert record().read(tests) == ("", [])
    record().write(tests, passed(tests), TODAY)
    tested, outcomes = record().read(tests)
    assert tested == TODAY
    assert {outcome.nodeid for outcome in outcomes} == {test.nodeid for test in tests}


@pytest.mark.parametrize("outcome", ["fail", "error", "timeout", "crash", "skip"])
def test_nothing_is_kept_of_a_run_that_found_something(
    tests: list[PlannedTest], record: Callable[[], EngineRecord], outcome: Any
) -> None:
    first, *others = passed(tests)
    record().write(tests, [replace(first, outcome=outcome), *others], TODAY)
    assert record().read(tests) == ("", [])


def test_nothing_is_kept_of_a_run_that_was_cut_short(
    tests: list[PlannedTest], record: Callable[[], EngineRecord]
) -> None:
    record().write(tests, passed(tests)[1:], TODAY)
    assert record().read(tests) == ("", [])


def test_a_run_that_tests_more_than_the_record_has_tests_all(
    tests: list[PlannedTest], record: Callable[[], EngineRecord]
) -> None:
    compiling = [replace(test, test=replace(test.test, compiles=True)) for test in tests[:1]] + tests[1:]
    fewer = without_compiler(compiling, compiles=False)
    record().write(fewer, passed(tests)[1:], TODAY)
    assert record().read(fewer)[0] == TODAY
    assert record().read(tests) == ("", [])


@pytest.mark.parametrize(
    ("name", "value"), [("TORCH_LOGS", "aot"), ("OMP_NUM_THREADS", "7"), ("PYTHONPATH", "/elsewhere")]
)
def test_another_environment_has_no_record_yet(
    tests: list[PlannedTest],
    record: Callable[[], EngineRecord],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    record().write(tests, passed(tests), TODAY)
    monkeypatch.setenv(name, value)
    assert record().read(tests) == ("", [])


@pytest.mark.parametrize("name", ["lib/libtorch_cpu.so", "_functorch/apis.py", "version.py"])
def test_a_changed_file_of_torch_leaves_no_record(
    tests: list[PlannedTest],
    record: Callable[[], EngineRecord],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    for each in ("__init__.py", "version.py", "lib/libtorch_cpu.so", "_functorch/apis.py", "share/notes.txt"):
        (tmp_path / "torch" / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "torch" / each).touch()
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "cache").mkdir()  # beside torch, as nothing in a user's environment is
    record().write(tests, passed(tests), TODAY)
    (tmp_path / "torch" / "share" / "notes.txt").write_text("no code")
    assert record().read(tests)[0] == TODAY
    (tmp_path / "torch" / name).write_text("changed")
    assert record().read(tests) == ("", [])


def test_a_changed_file_of_the_suite_leaves_no_record(
    tests: list[PlannedTest], record: Callable[[], EngineRecord], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "conformance" / "run").mkdir(parents=True)
    (tmp_path / "conformance" / "suite").mkdir()
    monkeypatch.setattr("conformance.run.engine_record.__file__", str(tmp_path / "conformance/run/engine_record.py"))
    record().write(tests, passed(tests), TODAY)
    assert record().read(tests)[0] == TODAY
    (tmp_path / "conformance" / "suite" / "test_new.py").touch()
    assert record().read(tests) == ("", [])


@pytest.mark.parametrize("text", ["", "\n", "{}", "[]\n[]", '{"environment": 3}\n{"outcome": "odd"}', "\0"])
def test_a_damaged_record_is_none(tests: list[PlannedTest], record: Callable[[], EngineRecord], text: str) -> None:
    own = record()
    own.write(tests, passed(tests), TODAY)
    own.path.write_text(text)
    assert own.read(tests) == ("", [])


def test_a_record_cut_in_its_middle_is_none(tests: list[PlannedTest], record: Callable[[], EngineRecord]) -> None:
    own = record()
    own.write(tests, passed(tests), TODAY)
    own.path.write_bytes(own.path.read_bytes()[:-200])
    assert own.read(tests) == ("", [])


def test_a_folder_that_cannot_be_written_to_does_no_harm(
    tests: list[PlannedTest], record: Callable[[], EngineRecord], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file, where the folder should be")
    record().write(tests, passed(tests), TODAY)
    assert record().read(tests) == ("", [])


@pytest.mark.parametrize(
    ("options", "passed_on", "fresh"),
    [
        (replace(OPTIONS, setup=("layers:prepare",)), (), ""),
        (replace(OPTIONS, expression="Scale"), (), ""),
        (OPTIONS, ("-x",), ""),
        (OPTIONS, (), "1"),
        (replace(OPTIONS, device="cuda"), (), ""),
        (replace(OPTIONS, device="emulated"), (), ""),
    ],
)
def test_a_run_that_is_not_like_others_has_no_record(
    record: object, monkeypatch: pytest.MonkeyPatch, options: RunOptions, passed_on: tuple[str, ...], fresh: str
) -> None:
    monkeypatch.setenv(FRESH, fresh)
    assert engine_record(options, passed_on) is None
