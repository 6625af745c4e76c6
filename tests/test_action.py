"""The action and the hook for other repositories do what they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
FEW = "test_one_value_for_each_input or test_gradient_is_the_declared_one"
LAYERS = """
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return {returned}


def inputs():
    yield torch.randn(3, dtype=torch.float64, requires_grad=True), 2.0
"""


@pytest.fixture
def package(tmp_path) -> Path:
    (tmp_path / "layers.py").write_text(LAYERS.format(returned="grad * ctx.factor, None"))
    (tmp_path / "broken.py").write_text(LAYERS.format(returned="grad * ctx.factor"))
    return tmp_path


def run(command: list[str], folder: Path, **around: str) -> subprocess.CompletedProcess[str]:
    """Run a command as on a runner; a program in the folder itself goes before all others."""
    places = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PYTEST_"))}
    around = {**kept, "PATH": os.pathsep.join(places), **around}
    return subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, timeout=600)


def step(name: str, folder: Path, **around: str) -> subprocess.CompletedProcess[str]:
    """Run one step of the action."""
    (found,) = [step for step in ACTION["runs"]["steps"] if step["name"] == name]
    assert set(around) == set(found["env"])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", found["run"]]
    return run(command, folder, **around, GITHUB_OUTPUT=str(folder / "output"))


def test_the_action_runs_the_subjects_and_writes_their_report(package):
    arguments = f'--inputs layers:inputs --ranks 1 -k "{FEW}"'
    done = step("Run", package, SUBJECTS="layers:Scale broken:Scale", ARGUMENTS=arguments, REPORT="report")
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((package / "report" / "report.json").read_text("utf-8"))
    verdicts = {subject["subject"]: subject["verdict"] for subject in report["subjects"]}
    assert verdicts.keys() == {"layers:Scale", "broken:Scale"}
    assert verdicts["broken:Scale"] == "fails"
    assert verdicts["layers:Scale"] != "fails"


def test_the_action_scans_into_sarif(package):
    done = step("Scan", package, SCAN=".", SARIF="scan.sarif")
    assert done.returncode == 0, done.stderr
    results = json.loads((package / "scan.sarif").read_text("utf-8"))["runs"][0]["results"]
    found = {
        place["physicalLocation"]["artifactLocation"]["uri"] for result in results for place in result["locations"]
    }
    assert found == {"broken.py"}


def test_the_action_says_where_its_files_are(package):
    assert step("Say where results go", package, REPORT="out", SCAN="pkg").returncode == 0
    assert (package / "output").read_text() == "report=out/report.json\nsarif=out/scan.sarif\n"
    (package / "output").unlink()
    assert step("Say where results go", package, REPORT="out", SCAN="").returncode == 0
    assert (package / "output").read_text() == "report=out/report.json\nsarif=\n"


@pytest.mark.parametrize(
    ("install", "asked"),
    [("", "the folder of the action"), ('"torch<2.15" "a package"', "torch<2.15\na package")],
)
def test_the_action_installs_what_it_is_told(package, install, asked):
    (package / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (package / "python").chmod(0o755)
    done = step("Install the suite", package, INSTALL=install, HERE="the folder of the action")
    assert done.stdout == f"-m\npip\ninstall\n{asked}\n", done.stderr


def test_every_input_of_the_action_is_used():
    text = (ROOT / "action.yml").read_text("utf-8")
    assert [name for name in ACTION["inputs"] if f"inputs.{name}" not in text] == []


def test_the_hook_finds_a_mistake_in_somebody_elses_repository(package, tmp_path_factory):
    ours = tmp_path_factory.mktemp("ours")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", ours)
    revision = commit(ours)
    config = {"repos": [{"repo": str(ours), "rev": revision, "hooks": [{"id": "conformance-scan"}]}]}
    (package / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    commit(package)
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    home = str(tmp_path_factory.mktemp("home"))
    done = run(command, package, PRE_COMMIT_HOME=home)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "broken.py" in done.stdout
    (package / "broken.py").unlink()
    commit(package)
    done = run(command, package, PRE_COMMIT_HOME=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout


def commit(folder: Path) -> str:
    """Make a repository of a folder, commit all of it, and say which revision that is."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "--message", "all"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=folder, text=True).strip()
