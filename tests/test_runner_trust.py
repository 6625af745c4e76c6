"""What a stranger hands over, a journal, a report, a key, is neither believed nor waited for."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from conformance.core.errors import UsageError
from conformance.core.files import read_bytes, read_text
from conformance.core.key import own_key, pop_key
from tests.faults.command import FEW, ROOT, Running, journal, reported, run, until
from tests.faults.running import SPEC
from tests.test_meddlers import FAULTS as meddlers
from tests.test_vandals import FAULTS as vandals

RUN = ("run", "hostile:Good", "--spec", SPEC, "--ranks", "1,2", "-k", FEW)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was killed after a few tests."""
    folder = tmp_path_factory.mktemp("killed")
    with Running(*RUN, "--report", "out", cwd=folder) as running:
        until(lambda: len(journal(folder / "out")) >= 2)
        running.send(signal.SIGKILL)
        running.end()
    return folder


@pytest.fixture
def begun(killed: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may change and resume."""
    return shutil.copytree(killed, tmp_path, dirs_exist_ok=True)


def resumed(folder: Path, **environment: str) -> tuple[int, str]:
    status, _, said = run("run", "--resume", "out", cwd=folder, env=environment)
    return status, said


def test_a_journal_that_asks_for_a_setup_of_its_own_imports_nothing(begun: Path) -> None:
    (begun / "evil.py").write_text("import pathlib\npathlib.Path('owned').touch()\ndef setup(): pass\n")
    file = begun / "out" / "outcomes.jsonl"
    head, rest = file.read_text().split("\n", 1)
    data = json.loads(head)
    data["asked"]["setup"] = ["evil:setup"]
    file.write_text(json.dumps(data) + "\n" + rest)
    status, said = resumed(begun)
    assert not (begun / "owned").exists()
    assert status == 4
    assert "not signed with your key" in said
    assert len(said.splitlines()) == 1


def test_another_users_journal_is_refused(begun: Path) -> None:
    status, said = resumed(begun, CONFORMANCE_KEY="the key of somebody else")
    assert status == 4
    assert "not signed with your key" in said
    assert resumed(begun) == (1, ""), "the same journal, with the key that signed it; -k leaves the verdict incomplete"


def test_a_run_that_had_ended_is_resumed_with_nothing_left_to_do(tmp_path: Path) -> None:
    assert run(*RUN, "--report", "out", cwd=tmp_path)[0] == 1
    done = len(journal(tmp_path / "out"))
    assert resumed(tmp_path) == (1, "")
    assert len(journal(tmp_path / "out")) == done


def test_a_forged_outcome_in_a_journal_is_as_good_as_absent(begun: Path) -> None:
    file = begun / "out" / "outcomes.jsonl"
    head, first, *rest = file.read_text().splitlines()
    forged = json.loads(first)
    forged.update(outcome="fail", message="forged")
    file.write_text("\n".join([head, json.dumps(forged), *rest]) + "\n")
    resumed(begun)
    tests = list(reported(begun / "out" / "report.json"))
    assert not [test for test in tests if test["message"] == "forged"]
    assert {test["outcome"] for test in tests} == {"pass", "skip"}


def test_an_outcome_of_another_journal_does_not_count(begun: Path) -> None:
    file = begun / "out" / "outcomes.jsonl"
    line = file.read_text().splitlines()[1]
    file.unlink()
    with Running(*RUN, "--report", "out", cwd=begun) as running:
        until(lambda: len(journal(begun / "out")) >= 1)
        running.send(signal.SIGKILL)
        running.end()
    head = file.read_text().splitlines()[0]
    file.write_text(f"{head}\n{line}\n")
    resumed(begun)
    name = json.loads(line)["nodeid"]
    assert [test["nodeid"] for test in journal(begun / "out")].count(name) == 2, "it was run again"


def test_a_home_that_keeps_no_key_costs_the_resumption_and_not_the_run(tmp_path: Path) -> None:
    home = {"HOME": "/proc/none", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    status, _, said = run(*RUN, "--report", "out", cwd=tmp_path, env=home)
    assert (status, said) == (1, "")
    status, said = resumed(tmp_path, **home)
    assert status == 4
    assert "not signed with your key" in said


def test_a_key_that_the_environment_names_is_used_or_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        own_key({"CONFORMANCE_KEY_FILE": str(tmp_path / "none")})
    with pytest.raises(UsageError, match="can be guessed"):
        own_key({"CONFORMANCE_KEY": "short"})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_that_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("0123456789abcdef")
    file.chmod(0o600)
    os.chown(file, 65534, 65534)
    with pytest.raises(UsageError, match="belongs to another user"):
        pop_key({"CONFORMANCE_KEY_FILE": str(file)})


def test_a_key_file_that_is_a_pipe_or_has_no_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(UsageError, match="it is not a file"):
            pop_key({"CONFORMANCE_KEY_FILE": str(path)})


@pytest.fixture(params=["pipe", "zero", "folder", "huge", "binary", "none"])
def unreadable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 40)  # a terabyte of which nothing is on the disk
        case "binary":
            path.write_bytes(b"\xff\xfe\x00")
    return path


@pytest.mark.parametrize("command", [("verify",), ("compare",), ("run", "--expect"), ("run", "--resume")])
def test_a_file_that_cannot_be_read_is_said_in_a_line_with_status_4(
    command: tuple[str, ...], unreadable: Path, tmp_path: Path
) -> None:
    given = str(unreadable)
    if command[-1] == "--resume":
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "outcomes.jsonl").symlink_to(unreadable)
        given = "out"
    words = (*command, given, given) if command == ("compare",) else (*command, given)
    status, out, said = run(*words, cwd=tmp_path)
    assert (status, out) == (4, "")
    assert len(said.splitlines()) == 1, said
    assert "Traceback" not in said


def test_every_promise_of_the_security_model_names_tests_that_there_are() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    there = {
        name for file in ROOT.glob("tests/**/test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert len(named) > 20
    assert named - there == set()


def test_the_page_of_faults_counts_those_that_tests_plant() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    assert f"Tests plant {len(meddlers) + len(vandals)} more faults" in page


def test_a_file_is_read_whole_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("grüß")
    assert read_text(file) == "grüß"
    assert read_bytes(file, largest=6) == "grüß".encode()
    with pytest.raises(UsageError, match="it is larger than"):
        read_bytes(file, largest=5)
