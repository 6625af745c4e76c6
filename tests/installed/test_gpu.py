"""``make gpu``, rehearsed on an emulated device."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.installed.commands import ROOT

#: On a busy machine a fault may be met by its deadline first; test_faults.py, which is patient, looks at verdicts.
LATE = {("killed", "timeout"), ("lone_error", "timeout")}


def test_what_is_owed_on_a_gpu_is_rehearsed(tmp_path):
    """``make gpu`` leaves a file for each of its steps; here with few tests, and without a GPU."""
    command = [sys.executable, "conf/gpu.py", "--device", "emulated", "--into", str(tmp_path), "--short", "-n", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "| scaled sum | 3 by 4 | float64 |" in (tmp_path / "resolution-emulated.md").read_text()
    left = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert len(left) + 1 == ended.stdout.count("== ") == 8
    assert left["gpu-reference-second-device"]["environment"]["device"] == "emulated:1"
    assert left["gpu-reference"]["environment"]["accelerator"] == "emulated"
    tests = [test for one in left["gpu-reference"]["subjects"] for each in one["clauses"] for test in each["tests"]]
    assert "pass" in {test["outcome"] for test in tests}
    assert {row["verdict"] for row in left["published-emulated"]["subjects"]} == {"conforms"}
    told = {(row["fault"], row["verdict"]) for row in left["faults-emulated"]["ours"]} - LATE
    assert told <= {("killed", "crash"), ("lone_error", "error")}
    assert {row["fault"] for row in left["faults-emulated"]["ours"]} == {"killed", "lone_error"}
    memory = {row["form"]: row["peak_mib"] for row in left["bench-gathers-emulated"]["figures"]}
    assert memory["reference"] > 0


def test_a_step_that_is_not_there_is_refused():
    command = [sys.executable, "conf/gpu.py", "--device", "emulated", "refernce"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 2
    assert "there is no step refernce; there are reference, " in ended.stderr
