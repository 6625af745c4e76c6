"""What surrounds the code agrees with it: versions, the matrix of the workflows, the checks of a release."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "conf"))

import release  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SOURCE = PROJECT["urls"]["Source"]
NUMBER = json.loads((ROOT / release.SCHEMA).read_text("utf-8"))["properties"]["schema"]["enum"][0]
REPORT = json.loads((ROOT / "docs" / "results" / "reference.json").read_text("utf-8"))
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8"))["jobs"]


def test_each_supported_pytorch_is_in_tox_in_the_workflow_and_in_the_requirement():
    in_tox = set(re.findall(r"torch\d+: torch==(\d+\.\d+)", (ROOT / "tox.ini").read_text("utf-8")))
    in_workflow = JOBS["conformance"]["strategy"]["matrix"]["torch"]
    assert [f"=={release}.*" for release in sorted(in_tox)] == in_workflow[:-1]
    assert in_workflow[-1] == "", "the newest, whatever its number"
    assert len(in_tox) == 5, "docs/policies.md says so"
    (oldest,) = [name.removeprefix("torch>=") for name in PROJECT["dependencies"] if name.startswith("torch>=")]
    assert min(in_tox) == oldest


def test_each_python_that_is_named_is_tested():
    tested = JOBS["tests"]["strategy"]["matrix"]["python"]
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert named
    assert set(named) <= set(tested)
    assert PROJECT["requires-python"] == f">={tested[0]}"


def test_the_citation_has_the_version_of_the_project():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == PROJECT["version"]


@pytest.fixture
def project(tmp_path) -> Path:
    """The files that a release is told from."""
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "README.md", str(release.SCHEMA)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / release.SCHEMAS).mkdir(parents=True)
    return tmp_path


def test_a_release_is_told_what_it_lacks(project):
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    assert list(release.lacks(project, "9.8.7", SOURCE)) == [
        f"pyproject.toml has version {PROJECT['version']}, not 9.8.7",
        "CITATION.cff does not have version 9.8.7",
        "CHANGELOG.md has no section such as '## 9.8.7 (2026-12-31)'",
        f"the schema has a number that no release had: copy {release.SCHEMA} to {release.SCHEMAS}/{NUMBER}.json",
    ]


def test_a_release_that_lacks_nothing_is_told_nothing(project):
    (project / "CHANGELOG.md").write_text(f"# Changelog\n\n## {PROJECT['version']} (2026-12-31)\n")
    shutil.copy(ROOT / release.SCHEMA, project / release.SCHEMAS / f"{NUMBER}.json")
    assert list(release.lacks(project, PROJECT["version"], SOURCE)) == []


def test_a_release_has_reports_by_its_own_clauses(project):
    results = project / "docs" / "results"
    results.mkdir(parents=True)
    for name in ("reference", "gpu-reference"):
        (results / f"{name}.json").write_text('{"suite": {"clauses_sha256": "0"}}')
    told = [line for line in release.lacks(project, PROJECT["version"], SOURCE) if "results" in line]
    assert told == ["docs/results/reference.json was judged by other clauses: make results"]


def test_a_release_has_the_address_of_the_repository_that_it_is_made_from(project):
    told = [line for line in release.lacks(project, PROJECT["version"], "https://github.com/a/b") if "urls" in line]
    assert told == [f"[project.urls] of pyproject.toml has {SOURCE}, and the repository is https://github.com/a/b"]
    (told,) = [line for line in release.lacks(project, PROJECT["version"], "") if "urls" in line]
    assert told.endswith("the repository is one that nobody else can reach")


def test_the_readme_has_no_other_addresses_of_the_project_than_pyproject(project):
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(text.replace("https://autograd-conformance.github.io", "https://a.org"))
    told = [line for line in release.lacks(project, PROJECT["version"], SOURCE) if "README" in line]
    assert told[0].startswith("README.md has https://autograd-conformance.github.io/")
    assert told[0].endswith(", which is under no address of [project.urls]")


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@github.com:a/b.git", "https://github.com/a/b"),
        ("https://github.com/a/b.git", "https://github.com/a/b"),
        ("/some/folder", ""),
        (None, ""),
    ],
)
def test_the_repository_is_the_one_that_origin_names(tmp_path, monkeypatch, remote, address):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    if remote:
        subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", remote], check=True)
    assert release.repository(tmp_path) == address


def test_a_workflow_says_which_repository_it_runs_in(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_REPOSITORY", "a/b")
    assert release.repository(tmp_path) == "https://github.com/a/b"


def test_reports_keep_to_the_schema_that_was_released_with_their_number():
    assert list(release.departures(REPORT)) == []


def test_a_report_that_departs_from_the_released_schema_is_seen(project):
    shutil.copy(ROOT / release.SCHEMA, project / release.SCHEMAS / f"{REPORT['schema']}.json")
    short = {**REPORT, "subjects": REPORT["subjects"][:1]}  # to hold all of it against a schema takes seconds
    assert list(release.departures({**short, "added": "later"}, project / release.SCHEMAS)) == []
    without = {key: value for key, value in short.items() if key != "environment"}
    assert list(release.departures(without, project / release.SCHEMAS)) == ["$: 'environment' is a required property"]


@pytest.mark.parametrize("words", [[], ["0.1.0"], ["v0.1"], ["v0.1.0", "v0.2.0"]])
def test_a_release_needs_one_tag(words, capsys):
    assert release.main(words) == 4
    assert "such as v0.1.0" in capsys.readouterr().err
