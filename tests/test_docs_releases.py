"""What the site says of PyTorch's releases: true of the installed one, and said once where releases agree."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from conformance.core.clauses import registry
from tests.site import ROOT

sys.path.insert(0, str(ROOT / "conf"))
pytest.importorskip("sphinx", reason="building pages needs conf/requirements-docs.txt")
from clause_pages.record import ENGINE, Run, release_of
from clause_pages.results import columns_of


def run(environment: str, **verdicts: str) -> Run:
    clauses = {name: {"verdict": verdict} for name, verdict in verdicts.items()}
    return Run(ENGINE, "Function", environment, "conforms", "2026-01-01", clauses)


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


def test_releases_that_agree_share_a_column():
    (column,) = columns_of([run("PyTorch 2.11.0+cpu, gloo, cpu", a="pass"), run("PyTorch 2.9.0, gloo, cpu", a="pass")])
    assert column.where == "PyTorch 2.9.0, 2.11.0; gloo, cpu"


def test_releases_that_differ_have_columns_of_their_own():
    columns = columns_of([run("PyTorch 2.11.0, gloo, cpu", a="pass"), run("PyTorch 2.9.0, gloo, cpu", a="fail")])
    assert [column.where for column in columns] == ["PyTorch 2.9.0, gloo, cpu", "PyTorch 2.11.0, gloo, cpu"]


def test_environments_are_ordered_by_release():
    environments = [f"PyTorch {release}, gloo, cpu" for release in ("2.11.0", "2.9.1", "2.9.0+cpu")]
    assert sorted(environments, key=release_of) == environments[::-1]
    assert str(release_of(environments[-1])) == "2.9.0"
