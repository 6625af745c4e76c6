"""What is printed comes from one place: nothing in it is obeyed by a terminal, or by a log."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.core.output import say, say_data, shown
from tests.made_up import made, subject_ref

PACKAGE = Path(__file__).parents[1] / "conformance"
#: Where texts are made fit to be printed, where rich lays out such texts, and what a log is meant to obey.
PLACES = {"core/output.py", "report/sheet.py", "scan/table.py", "report/github.py", "report/schema.py"}
#: What runs on a rank, whose output goes into a pipe, or in a script of the user's own.
ELSEWHERE = ("suite/", "kit/", "reproduce/pieces/", "emulated/", "sphinx/", "prove/")
HOSTILE = "::error title=owned::yes\n::stop-commands::x\n##[error]no\n##vso[task.setvariable]x\x1b[31m"


def printed(source: str) -> list[int]:
    """The lines of a module that print by themselves."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _prints(ast.unparse(call.func)) and not _is_shown(call)]


def _prints(called: str) -> bool:
    return called == "print" or called.endswith(
        (".print", "stdout.write", "stderr.write", "console.file.write", ".write_line")
    )


def _is_shown(call: ast.Call) -> bool:
    return bool(call.args) and ast.unparse(call.args[0]).startswith("shown(")


def test_everything_is_printed_through_one_place() -> None:
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if name not in PLACES and not name.startswith(ELSEWHERE):
            found += [f"{name}:{line}" for line in printed(file.read_text("utf-8"))]
    assert found == []


def test_ways_to_print_are_found() -> None:
    ways = ["print(x)", "console.print(x)", "sys.stdout.write(x)", "console.file.write(x)", "reporter.write_line(x)"]
    assert printed("\n".join([*ways, "reporter.write_line(shown(x))"])) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("log", ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"])
def test_a_log_obeys_nothing_that_is_shown(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(log, "true")
    say(HOSTILE)
    say_data({HOSTILE: HOSTILE})
    out = capsys.readouterr().out
    assert not any(line.lstrip().startswith("::") for line in out.splitlines()), out
    assert not any(mark in out for mark in ("##[", "##vso[", "\x1b")), out
    assert json.loads(out[out.index("{") :]) == {HOSTILE: HOSTILE}


def test_where_no_log_obeys_it_a_slice_stays_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    for log in ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"):
        monkeypatch.delenv(log, raising=False)
    assert shown("x[:, ::2]") == "x[:, ::2]"


def _command(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conformance", *words],
        cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False, encoding="utf-8",
    )  # fmt: skip


def test_no_name_in_a_report_is_a_command_to_the_log_that_verify_and_compare_print_in(tmp_path: Path) -> None:
    report = made(subjects=[subject_ref("::error title=owned::yes")]).to_json()
    report["subjects"][0]["verdict"] = "fails"
    for name in ("::warning::no.json", "other.json"):
        (tmp_path / name).write_text(json.dumps(report))
    (tmp_path / "other.json").write_text(json.dumps({**report, "subjects": []}))
    for words in (("verify", "::warning::no.json"), ("compare", "::warning::no.json", "other.json"),
                  ("compare", "--json", "::warning::no.json", "other.json"), ("verify", "##[error]none.json"),
                  ("scan", "::error::x"), ("run", "::error::x"), ("explain", "::error::x"),
                  ("list", "\n::error::x")):  # fmt: skip
        done = _command(*words, cwd=tmp_path, GITHUB_ACTIONS="true")
        said = done.stdout + done.stderr
        assert said
        assert not any(line.lstrip().startswith("::") for line in said.splitlines()), said
        assert "##[" not in said


def test_a_terminal_that_knows_only_ascii_gets_escapes(tmp_path: Path) -> None:
    report = made(subjects=[subject_ref("mödül:Größe")]).to_json()
    report["subjects"][0]["verdict"] = "fails"
    for name in ("x.json", "mödül.json"):
        (tmp_path / name).write_text(json.dumps(report))
    (tmp_path / "y.json").write_text(json.dumps({**report, "subjects": []}))
    for words in (("verify", "mödül.json"), ("compare", "x.json", "y.json")):
        done = _command(*words, cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
        assert done.stderr == ""
        assert done.stdout.isascii()
    assert "m\\xf6d\\xfcl" in done.stdout
