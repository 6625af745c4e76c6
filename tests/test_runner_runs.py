"""Whole runs through the command: side by side, among hostile subjects, long, and closed to strangers."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conformance.ranks.client import Forkserver
from conformance.ranks.hangs import AGAIN
from tests.faults.command import FEW, SOME, Running, journal, reported, run, until
from tests.faults.held import held
from tests.faults.running import new_pool
from tests.faults.running import run as run_item

SPEC = ("--spec", "AllGatherGradAutograd", "--ranks", "2")
SLOW = ("run", "slow:Slow", *SPEC, "-k", SOME, "--report", "out")
CHROMIUM = next((path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if os.path.exists(path)), "")


def outcomes(report: Path, subject: str = "") -> dict[str, str]:
    return {test["nodeid"]: test["outcome"] for test in reported(report, subject) if test["reason"] != "not selected"}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of a good gather between bad ones, and one of the good gather alone."""
    folder = tmp_path_factory.mktemp("mixed")
    words = ("odd:Dies", "hostile:Good", "odd:Hangs", "slow:Slow", "odd:Odd", "exits_on_import:Gather")
    more = (*SPEC, "-k", FEW, "--timeout", "4")
    status, out, err = run("run", *words, *more, "--report", "out", cwd=folder)
    alone = run("run", "hostile:Good", "slow:Slow", *more, "--report", "alone", cwd=folder)
    return {"folder": folder, "status": status, "out": out, "err": err, "alone": alone}


def test_a_run_among_hostile_subjects_goes_on_to_its_end(mixed: dict[str, Any]) -> None:
    assert mixed["status"] == 1
    assert mixed["err"] == ""
    report = json.loads((mixed["folder"] / "out" / "report.json").read_text())
    verdicts = {subject["subject"]: subject["verdict"] for subject in report["subjects"]}
    assert {name for name, verdict in verdicts.items() if verdict == "fails"} == {
        "odd:Dies", "odd:Hangs", "odd:Odd", "exits_on_import:Gather"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "outcome", "word"),
    [
        ("odd:Dies", "crash", "killed by SIGSEGV"),
        ("odd:Hangs", "timeout", "did not finish within 4 s"),
        ("odd:Odd", "error", "RuntimeError"),
        ("exits_on_import:Gather", "crash", "exited with status 5"),
    ],
)
def test_each_hostile_subject_has_the_verdict_that_fits(
    mixed: dict[str, Any], subject: str, outcome: str, word: str
) -> None:
    tests = [test for test in reported(mixed["folder"] / "out" / "report.json", subject) if test["outcome"] == outcome]
    assert tests
    said = [test["message"] for test in tests if AGAIN not in test["message"]]
    assert said
    assert all(word in message for message in said)
    assert all(rank["message"] or rank["stack"] or rank["outcome"] == "pass" for t in tests for rank in t["ranks"])


def test_good_subjects_have_the_outcomes_that_they_have_alone(mixed: dict[str, Any]) -> None:
    folder = mixed["folder"]
    for subject in ("hostile:Good", "slow:Slow"):
        among, alone = (outcomes(folder / name / "report.json", subject) for name in ("out", "alone"))
        assert among == alone
        assert set(among.values()) == {"pass"}


def test_the_terminal_gets_no_control_characters_of_a_subject(mixed: dict[str, Any]) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", mixed["out"])
    assert not re.search("[\ud800-\udfff]", mixed["out"])


def test_report_html_runs_nothing_of_a_subject(mixed: dict[str, Any], tmp_path: Path) -> None:
    page = mixed["folder"] / "out" / "report.html"
    assert "document.title=" in html.unescape(page.read_text())  # the strings are there, as text
    if not CHROMIUM:
        pytest.skip("no chromium on this machine to open the page in")
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    done = subprocess.run([*words, page.as_uri()], capture_output=True, text=True, timeout=600, check=False)
    if "<title>" not in done.stdout:
        pytest.skip(f"chromium does not start here: {done.stderr[-200:]}")
    title = re.search("<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title[1] != "owned"


def test_workers_side_by_side_find_the_same(tmp_path: Path) -> None:
    more = ("run", "hostile:Good", "odd:Odd", *SPEC, "-k", FEW)
    one = run(*more, "--report", "one", cwd=tmp_path)
    two = run(*more, "--report", "two", "-n", "2", cwd=tmp_path)
    assert one[0] == two[0] == 1
    assert two[2] == ""
    same = [outcomes(tmp_path / name / "report.json") for name in ("one", "two")]
    assert same[0] == same[1]
    assert set(same[0].values()) == {"pass", "error"}


def test_workers_side_by_side_test_the_reference(tmp_path: Path) -> None:
    """Without a subject nothing has asked the controller's forkserver for its environment before the workers end."""
    status, out, err = run("run", "-k", "test_special_values_are_kept", "-n", "2", "--report", "out", cwd=tmp_path)
    assert (status, err) == (1, ""), out  # the rest of the suite was not selected
    environment = json.loads((tmp_path / "out" / "report.json").read_text())["environment"]
    assert environment["torch"]


def test_workers_side_by_side_are_interrupted_and_resumed(tmp_path: Path) -> None:
    with Running(*SLOW, "-n", "2", cwd=tmp_path) as running:
        until(lambda: len(journal(tmp_path / "out")) >= 2)
        running.send(signal.SIGINT, group=True)
        status, _, _ = running.end()
        assert not running.gone()
    assert status == 2
    before = len(journal(tmp_path / "out"))
    assert before < len(outcomes(tmp_path / "out" / "report.json"))
    assert run("run", "--resume", "out", "-n", "2", cwd=tmp_path)[0] in {0, 1}
    names = [test["nodeid"] for test in journal(tmp_path / "out")]
    assert len(names) == len(set(names)) > before
    assert set(outcomes(tmp_path / "out" / "report.json").values()) == {"pass", "not-applicable"}


def test_nobody_gets_in(tmp_path: Path) -> None:
    """Whatever listens during a run listens on loopback, and no Unix socket of ours has a name."""
    seen: set[str] = set()
    with Running(*SLOW, cwd=tmp_path) as running:
        until(lambda: running.process.poll() is not None or watch(running, seen))
        while len(journal(tmp_path / "out")) < 6 and running.process.poll() is None:
            watch(running, seen)
        running.send(signal.SIGTERM)
        running.end()
    assert seen, "nothing was seen to listen, so nothing was looked at"
    assert seen <= {"127.0.0.1", "::1"}


def watch(running: Running, seen: set[str]) -> set[str]:
    inodes = set()
    for pid in running.processes():
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    inodes.add(re.sub(r"socket:\[(\d+)\]", r"\1", os.readlink(link)))
    for table, shown in (("tcp", address_v4), ("tcp6", address_v6)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                seen.add(shown(fields[1].partition(":")[0]))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[6] in inodes and len(fields) > 7:
            seen.add(fields[7])
    return seen


def address_v4(digits: str) -> str:
    return ".".join(str(byte) for byte in bytes.fromhex(digits)[::-1])


def address_v6(digits: str) -> str:
    return "::1" if digits == "00000000000000000000000001000000" else digits


def test_two_thousand_tests_leak_nothing() -> None:
    """Descriptors, threads, processes and memory of the controller and of the ranks are flat."""
    forkserver = Forkserver()
    pool = new_pool(forkserver)
    try:
        for _ in range(200):
            assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
        before = held(pool.group, forkserver)
        for number in range(2000):
            if number % 200 == 0:  # some of them with a new world, some of these after a crash
                pool.close()
                assert number % 400 or run_item(pool, "forward_exit_1", "test_fault", 2).outcome == "crash"
            assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
        after = held(pool.group, forkserver)
    finally:
        pool.close()
        forkserver.close()
    for what in ("descriptors", "threads", "processes", "rank descriptors", "rank threads", "noted exits"):
        assert after[what] <= before[what] + 4, (what, before, after)
    for what in ("memory", "rank memory", "forkserver memory"):
        assert after[what] < before[what] + (12 << 20), (what, before, after)
