"""The controller's own end: interrupted, killed, with nowhere to write; and a run that goes on after it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from conformance.core.clauses import digest
from conformance.core.outcomes import TestOutcome
from conformance.plugin.recorder import Recorder
from conformance.run.journal import signed
from tests.faults.command import FEW, ROOT, SOME, Running, journal, reported, run, start, until

KEY = "the key of this test"
SLOW = ("run", "slow:Slow", "--spec", "AllGatherGradAutograd", "--ranks", "2", "-k", SOME, "--report", "out")
QUICK = ("run", "hostile:Good", "--spec", "AllGatherGradAutograd", "--ranks", "2", "-k", FEW)


def started(tmp_path: Path, *more: str) -> Running:
    running = Running(*SLOW, *more, cwd=tmp_path)
    until(lambda: len(journal(tmp_path / "out")) >= 2)
    return running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_one_interrupt_gives_a_whole_report_of_what_ran(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path) as running:
        running.send(number)
        status, _, _ = running.end()
        assert not running.gone()
    assert status == 2
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["interrupted"]
    tests = list(reported(tmp_path / "out" / "report.json"))
    ran = {test["nodeid"] for test in journal(tmp_path / "out")}
    assert ran == {test["nodeid"] for test in tests if test["outcome"] != "skip"}
    assert any(test["reason"] == "not run: interrupted" for test in tests)
    assert {"report.html", "junit.xml"} <= {file.name for file in (tmp_path / "out").iterdir()}


def test_an_interrupt_while_subjects_are_imported_gives_a_report_too(tmp_path: Path) -> None:
    with Running(*SLOW, cwd=tmp_path, env={"SLOW_IMPORT": "30"}) as running:
        until(lambda: len(running.processes()) >= 3)  # controller, forkserver, a rank
        time.sleep(0.5)
        running.send(signal.SIGINT)
        status, _, _ = running.end()
        assert not running.gone()
    assert status == 2
    assert all(test["outcome"] == "skip" for test in reported(tmp_path / "out" / "report.json"))


def test_two_interrupts_end_at_once(tmp_path: Path) -> None:
    with started(tmp_path) as running:
        running.send(signal.SIGINT)
        time.sleep(0.05)
        running.send(signal.SIGINT)
        status, _, _ = running.end()
        assert not running.gone()
    assert status == 2


def test_the_second_interrupt_waits_for_nothing() -> None:
    script = (
        "import time\nfrom conformance.run.interrupts import interruptible\n"
        "with interruptible():\n try:\n  print('ready', flush=True); time.sleep(60)\n"
        " except KeyboardInterrupt:\n  print('report', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"report\n"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 2
        assert b"interrupted twice" in said


def test_a_killed_run_leaves_nothing_and_is_resumed_without_repeating(tmp_path: Path) -> None:
    with started(tmp_path) as running:
        running.send(signal.SIGKILL)
        running.end()
        assert not running.gone()
    done = {test["nodeid"] for test in journal(tmp_path / "out")}
    with (tmp_path / "out" / "outcomes.jsonl").open("a") as file:
        file.write('{"nodeid": "cut sho')
    status, _, said = run("run", "--resume", "out", "--device", "cpu", cwd=tmp_path)  # where it ran, unasked
    assert status in {0, 1}, said
    names = [test["nodeid"] for test in journal(tmp_path / "out")]
    assert done < set(names)
    assert len(names) == len(set(names))
    selected = [test for test in reported(tmp_path / "out" / "report.json") if test["reason"] != "not selected"]
    assert {test["nodeid"] for test in selected} == set(names)
    assert {test["outcome"] for test in selected} == {"pass", "not-applicable"}
    assert [file.name for file in tmp_path.iterdir()] == ["out"]  # which was its temporary folder as well


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--resume", "nowhere"), "--resume 'nowhere': it has no outcomes.jsonl; give the folder"),
        (("--resume", "empty"), "is not the journal of a run"),
        (("--resume", "old"), "the clauses have changed since"),
        (("--resume", "other"), "spec was None, not 'AllGather'"),
        (("--resume", "stranger"), "is not signed with your key"),
    ],
)
def test_what_cannot_be_resumed_is_said_in_a_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    heads = {
        "empty": "no json\n",
        "old": json.dumps({"asked": {}, "clauses_sha256": "0"}),
        "other": json.dumps({"asked": {"spec": None}, "clauses_sha256": digest()}),
        "stranger": json.dumps({"asked": {"spec": None}, "clauses_sha256": digest()}),
    }
    for name, head in heads.items():
        (tmp_path / name).mkdir()
        text = head if name in {"empty", "stranger"} else signed(head, KEY.encode())
        (tmp_path / name / "outcomes.jsonl").write_text(text)
    status, out, err = run("run", "--spec", "AllGather", *words, cwd=tmp_path, env={"CONFORMANCE_KEY": KEY})
    assert (status, out) == (4, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_an_output_that_nobody_reads_is_said_in_a_line_and_the_report_is_written(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with Running(*QUICK, "--report", "out", cwd=tmp_path, stdout=writing) as running:
        os.close(writing)
        status, _, said = running.end()
    assert status == 3
    assert said == "conformance: the reader of the output has closed it\n"
    assert {test["outcome"] for test in reported(tmp_path / "out" / "report.json")} == {"pass", "skip"}


@pytest.mark.parametrize("words", [QUICK, ("list",), ("explain", "AllGatherGradAutograd.backward.sum")])
def test_a_full_disk_behind_the_output_is_said_in_a_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        status, _, said = start(*words, cwd=tmp_path, stdout=full)
    assert status == 3
    assert said == "conformance: the output cannot be written: No space left on device\n"


def test_an_output_that_was_never_there_is_no_trouble(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "conformance", "list"]
    shell = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], cwd=ROOT, capture_output=True, check=False)
    assert (shell.returncode, shell.stderr) == (0, b"")


def test_a_report_folder_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("file/out", "/proc/out"):
        status, out, err = run(*QUICK, "--report", folder, cwd=tmp_path)
        assert (status, out) == (4, "")
        assert err.startswith(f"conformance: cannot write to {folder}: ")


def test_a_disk_that_fills_up_costs_the_report_and_not_the_run(tmp_path: Path) -> None:
    probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("this machine lets nobody mount a small disk in a namespace of its own")
    (tmp_path / "small").mkdir()
    words = " ".join([sys.executable, "-m", "conformance", *QUICK[:-1], f"'{SOME}'", "--report", "small"])
    script = f"mount -t tmpfs -o size=16k none small && {words}; echo status $?; tail -c 200 small/outcomes.jsonl"
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/tests/faults"}
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "status 3" in done.stdout
    assert "this run cannot be resumed from here" in done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_that_is_closed_interrupts_the_run_and_leaves_a_report(tmp_path: Path) -> None:
    ours, theirs = os.openpty()

    def own_terminal() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with Running(*SLOW, cwd=tmp_path, preexec_fn=own_terminal, **streams) as running:
        os.close(theirs)
        until(lambda: len(journal(tmp_path / "out")) >= 2)
        os.close(ours)
        status, _, _ = running.end()
        assert not running.gone()
    assert status in {2, 3}, status  # 3: and what there was to print could not be printed
    assert json.loads((tmp_path / "out" / "report.json").read_text())["interrupted"]


def test_killed_workers_and_their_ranks_are_gone_too(tmp_path: Path) -> None:
    with started(tmp_path, "-n", "2") as running:
        assert sum("conformance.ranks.forkserver" in words for words in running.processes().values()) >= 3
        running.send(signal.SIGKILL)
        running.end()
        assert not running.gone()


def test_an_interrupt_is_not_lost_where_the_terminal_goes_away_at_the_same_time() -> None:
    def drawn(_: TestOutcome) -> None:
        try:
            try:
                raise KeyboardInterrupt
            finally:
                raise OSError(errno.EIO, "what is drawn in leaving cannot be written")
        finally:
            raise OSError(errno.EIO, "nor what comes after")

    recorder = Recorder(Mock(), on_start=print, on_outcome=drawn)
    report = SimpleNamespace(conformance=TestOutcome("x::y", "pass", 0.0, "Function.backward.count").to_text())
    with pytest.raises(KeyboardInterrupt):
        recorder.pytest_runtest_logreport(report)


def test_a_terminal_that_goes_away_ends_the_progress_line_and_not_the_run() -> None:
    recorder = Recorder(Mock(), on_start=print, on_outcome=Mock(side_effect=OSError(errno.EIO, "gone")))
    report = SimpleNamespace(conformance=TestOutcome("x::y", "pass", 0.0, "Function.backward.count").to_text())
    recorder.pytest_runtest_logreport(report)
    assert recorder.output_lost
