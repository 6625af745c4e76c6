"""``conformance run --device emulated``, as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from conformance.emulated import build
from tests import warm
from tests.emulated.plugged import install

ROOT = Path(__file__).parents[2]
SQUARE = ("tests.emulated.mistakes:Square", "--inputs", "tests.emulated.mistakes:inputs")
GATHER = ("spec_impl.ksuit:AllGatherGradAutograd", "--spec", "AllGatherGradAutograd")


def run(*words: str, **environment: str) -> tuple[int, str]:
    ended = warm.run("-m", "conformance", "run", *words, cwd=ROOT, env={**os.environ, **environment})
    return ended.returncode, ended.stdout + ended.stderr


def test_a_machine_without_a_compiler_is_told_what_is_missing(tmp_path):
    status, output = run(*SQUARE, "--device", "emulated", CXX="no-such-compiler", XDG_CACHE_HOME=str(tmp_path))
    assert status == 4
    assert output == (
        "conformance: --device emulated: the emulated device needs a C++ compiler, and there is no no-such-compiler: "
        "install g++, or set CXX\n"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--device", "npu"), "--device 'npu': PyTorch knows no such device; there are cpu, emulated"),
        (
            ("--device", "emulated", "--backend", "hccl"),
            "--backend 'hccl': torch.distributed knows no such backend; there are gloo, emulated_ccl, simulated",
        ),
    ],
)
def test_a_name_that_nobody_registered_is_refused_with_those_there_are(words, line):
    build()
    assert run(*SQUARE, *words) == (4, f"conformance: {line}\n")


def test_a_device_registered_by_an_installed_package_can_be_used(tmp_path):
    """Its entry point in the group ``torch.backends`` is called by ``import torch``, on every rank."""
    loading = (
        f"from pathlib import Path\nfrom conformance.emulated.registration import load\nload(Path({str(build())!r}), 3)"
    )
    report = tmp_path / "report"
    words = ("--device", "emulated:2", "-k", "it_takes_one_value_for_each_output", "--report", str(report))
    _, output = run(*SQUARE, *words, PYTHONPATH=install(tmp_path, loading))
    assert "must 1/1" in output, output
    assert json.loads((report / "report.json").read_text())["environment"]["gpus"] == "3"


def test_a_gather_keeps_its_clauses_on_several_ranks(tmp_path):
    words = ("--device", "emulated", "--ranks", "2,3", "-k", "gradient_is_the_sum or half or dtype")
    _, output = run(*GATHER, *words, "--report", str(tmp_path))
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["environment"]["backend"] == "emulated_ccl"
    (subject,) = report["subjects"]
    tests = [test for clause in subject["clauses"] for test in clause["tests"]]
    chosen = [test for test in tests if test["reason"] != "not selected"]
    assert {test["world"] for test in chosen if test["outcome"] == "pass"} == {1, 2, 3}
    assert {test["outcome"] for test in chosen} <= {"pass", "not-applicable"}, output
    # emulated_ccl and NCCL refuse int16; that alone is not applicable.
    refused = [test["reason"] for test in chosen if "carries no" in test["reason"]]
    assert all("int16" in reason for reason in refused)


def test_a_script_shows_the_bug_on_the_device_where_it_was_seen(tmp_path):
    mistaken = "tests.emulated.mistakes:HostTensorInForward"
    words = (mistaken, "--inputs", "tests.emulated.mistakes:inputs", "--device", "emulated", "--no-compile")
    run(*words, "-k", "one_value_for_each_input", "--reproduce", str(tmp_path))
    (script,) = tmp_path.iterdir()
    assert "the emulated device of autograd-conformance" in " ".join(script.read_text("utf-8").split())
    assert _status(script) == 1
    script.write_text(script.read_text("utf-8").replace("HostTensorInForward", "Square"), "utf-8")
    assert _status(script) == 0


def _status(script: Path) -> int:
    return warm.run(str(script), cwd=ROOT).returncode
