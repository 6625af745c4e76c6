"""Expectations, verify and compare through the real command, on one run that deviates."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest

from conformance.cli.commands import main
from tests.faults.command import run
from tests.modules import module
from tests.sharing import one_forkserver

LAYERS = module("Careless", backward="import os\nreturn grad * 2 if os.path.exists('mended') else grad.mul_(2)")
RUN = ["run", "layers:Careless", "--inputs", "layers:inputs", "--ranks", "1", "--no-compile"]
CLAUSE = "Function.backward.grads-untouched"


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run that writes its report and a first file of expectations."""
    folder = tmp_path_factory.mktemp("expect")
    (folder / "layers.py").write_text(LAYERS)
    status, _, _ = run(*RUN, "--report", "old", "--write-expect", "known.toml", "--strict", cwd=folder)
    with contextlib.chdir(folder), one_forkserver():
        with is_mended():
            mended = main([*RUN, "--report", "new"])
        yield folder, status, mended


@contextlib.contextmanager
def is_mended():
    """The class is good while this lasts; ranks stand in the folder that is current here."""
    Path("mended").touch()
    try:
        yield
    finally:
        Path("mended").unlink()


@pytest.fixture
def here(first, monkeypatch):
    monkeypatch.chdir(first[0])
    return first[0]


def test_strict_fails_on_a_broken_quality_clause(first):
    assert first[1:] == (1, 0)


def test_a_first_file_names_the_clause_and_the_subject(here):
    text = Path("known.toml").read_text()
    assert CLAUSE in text
    assert "layers:Careless" in text


def expecting(capfd: pytest.CaptureFixture[str], name: str, *words: str) -> tuple[int, str]:
    """A run with a file of expectations: the status, and what is printed."""
    capfd.readouterr()
    status = main([*RUN, "--expect", name, *words])
    return status, "".join(capfd.readouterr())


@pytest.fixture
def reasoned(here) -> str:
    """The first file, with the reasons that somebody gave."""
    text = re.sub(r'reason = ".*"', 'reason = "it is ours to change"', Path("known.toml").read_text())
    Path("reasoned.toml").write_text(text)
    return text


def test_a_first_file_is_refused_until_its_reasons_are_given(here, capfd):
    status, said = expecting(capfd, "known.toml")
    assert (status, "reason is empty: say why this is accepted" in said) == (4, True), said


def test_what_is_expected_fails_nothing(reasoned, capfd):
    status, said = expecting(capfd, "reasoned.toml", "--strict")
    assert status == 0, said
    assert "2 broken as expected" in said
    assert f"{CLAUSE}: it is ours to change" in said


def test_an_expectation_whose_clause_now_passes_or_that_has_expired_is_an_error(reasoned, capfd):
    Path("expired.toml").write_text(reasoned.replace("\nreason", "\nexpires = 2020-01-01\nreason"))
    status, said = expecting(capfd, "expired.toml")
    assert (status, "2020-01-01" in said) == (1, True), said
    with is_mended():
        status, said = expecting(capfd, "reasoned.toml")
    assert (status, CLAUSE in said) == (1, True), said


def test_a_clause_that_was_judged_and_is_not_any_more_is_an_error(reasoned, capfd):
    text = reasoned.replace("clauses = [", 'clauses = [\n    "Function.jvp.tangent",')
    assert text != reasoned
    Path("judged.toml").write_text(text)
    status, said = expecting(capfd, "judged.toml")
    words = " ".join(said.split())
    assert (status, "Function.jvp.tangent was judged, and is not-applicable for 'layers:Careless'" in words) == (
        1,
        True,
    )


def test_verify_finds_a_report_in_order_and_a_forged_one_not(here, capsys):
    assert main(["verify", "old/report.json"]) == 0
    assert "valid" in capsys.readouterr().out
    data = json.loads(Path("old/report.json").read_text())
    (forged,) = [clause for clause in data["subjects"][0]["clauses"] if clause["id"] == CLAUSE]
    forged["verdict"] = "pass"
    Path("forged.json").write_text(json.dumps(data))
    assert main(["verify", "forged.json"]) == 1
    assert CLAUSE in capsys.readouterr().out


def test_compare_tells_what_was_mended_and_what_got_worse(here, capsys):
    assert main(["compare", "old/report.json", "new/report.json"]) == 0
    assert CLAUSE in capsys.readouterr().out
    assert main(["compare", "new/report.json", "old/report.json"]) == 1
    assert main(["compare", "--json", "new/report.json", "old/report.json"]) == 1
    assert CLAUSE in capsys.readouterr().out
