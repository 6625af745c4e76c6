"""What the site says of PyTorch's releases: true of the installed one, and said once where releases agree."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from conformance.core.clauses import digest, registry
from tests.site import ROOT

sys.path.insert(0, str(ROOT / "conf"))
pytest.importorskip("sphinx", reason="building pages needs conf/requirements-docs.txt")
from clause_pages.record import ENGINE, Run, read, release_of
from clause_pages.results import differences, spreads
from clause_pages.runs import Taken

DAY = Taken("2026-01-01", "2.11.0", "abcdef0", "0")
MUST, MAY = "Function.backward.count", "Function.compile.fullgraph"


def run(environment: str, verdict: str = "conforms", **verdicts: str) -> Run:
    named = {"must": MUST, "may": MAY}
    clauses = {named[name]: {"verdict": verdict} for name, verdict in verdicts.items()}
    return Run(ENGINE, "Function", environment, verdict, DAY, clauses)


def test_the_page_on_releases_is_true_of_the_installed_pytorch(tmp_path):
    import torch

    name = f"release-{torch.__version__.partition('+')[0]}.json"
    kept = ROOT / "docs" / "data" / name
    if not kept.exists():
        pytest.skip(f"{name} is not there: python conf/releases.py writes it")
    command = [sys.executable, "-W", "ignore", "conf/releases.py", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    actual, said = (json.loads(path.read_text("utf-8")) for path in (tmp_path / name, kept))
    assert actual["members"] == said["members"]
    assert actual["departures"] == said["departures"]


def test_every_member_is_named_by_a_clause_or_said_to_have_none():
    releases = [json.loads(path.read_text("utf-8")) for path in (ROOT / "docs" / "data").glob("release-*.json")]
    members = {name for release in releases for group in release["members"].values() for name in group}
    clauses = " ".join(f"{clause.id} {clause.text}" for clause in registry().values())
    page = (ROOT / "docs" / "not-asserted.md").read_text("utf-8")
    assert "input_grad_buffers" in members, "no release that has it was looked at"
    unsaid = [name for name in sorted(members) if not re.search(rf"\b{name}\b", clauses) and f"`{name}`" not in page]
    assert unsaid == []


def test_a_class_has_one_row_whatever_it_was_run_on():
    found = {
        "PyTorch 2.9.0": [run("PyTorch 2.9.0", must="pass")],
        "PyTorch 2.11.0": [run("PyTorch 2.11.0", must="fail")],
    }
    (row,) = spreads(read(), found)
    assert (row.holds, row.broken) == ("0 to 1", "0 to 1")


def test_a_may_that_does_not_hold_is_not_counted_as_broken():
    (row,) = spreads(read(), {"PyTorch 2.9.0": [run("PyTorch 2.9.0", must="pass", may="fail")]})
    assert (row.verdicts, row.holds, row.broken, row.noted) == ({"conforms": ["PyTorch 2.9.0"]}, "1", "0", "1")


def test_only_clauses_that_differ_have_a_row():
    found = {
        "PyTorch 2.9.0": [run("PyTorch 2.9.0", must="pass", may="pass")],
        "PyTorch 2.11.0": [run("PyTorch 2.11.0", must="pass", may="fail")],
    }
    rows = [row for row in differences(read(), found) if not row.clause.versions]
    assert [(row.clause.id, list(row.verdicts)) for row in rows] == [(MAY, ["pass", "fail"])]


def test_data_are_old_as_soon_as_a_clause_differs():
    assert DAY.old
    assert not replace(DAY, clauses_sha256=digest()).old


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_every_report_says_when_and_by_what_it_was_made(path):
    taken = Taken.of(json.loads(path.read_text("utf-8"))["machine"])
    assert all([taken.date, taken.torch, taken.commit, taken.clauses_sha256])


def test_environments_are_ordered_by_release():
    environments = [f"PyTorch {release}, gloo, cpu" for release in ("2.11.0", "2.9.1", "2.9.0+cpu")]
    assert sorted(environments, key=release_of) == environments[::-1]
    assert str(release_of(environments[-1])) == "2.9.0"
