"""The proof about PyTorch's own operators: what it judges, and what it does not let pass."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
import torch

from tests.proof import isolated, pytorch
from tests.proof.__main__ import PYTORCH
from tests.proof.pytorch import Reason

ENTRIES = {entry.reference: entry for entry in pytorch.entries()}
DATA = json.loads(PYTORCH.read_text(encoding="utf-8"))


def doubled(gradients):
    return [None if one is None else 2 * one for one in gradients]


@pytest.mark.parametrize("name", ["sign in float64", "nn.functional.dropout in float64", "exp in complex128"])
def test_an_operator_conforms_and_its_mutants_are_caught(name):
    row = pytorch.judge(ENTRIES[name])
    assert (row["verdict"], row["found"]) == ("conforms", {})
    assert set(row["mutants"].values()) == {pytorch.CAUGHT}
    assert pytorch.problems([row], []) == []


def test_a_wrong_operator_is_a_problem_unless_somebody_wrote_why():
    row = pytorch.judge(ENTRIES["mul in float64"], wrong=doubled)
    assert [*row["found"]] == [pytorch.GRADIENT]
    (problem,) = pytorch.problems([row], [])
    assert problem.startswith(f"mul in float64: {pytorch.GRADIENT}: test_")
    for name in ("mul", "mul in float64"):
        assert pytorch.problems([row], [Reason((name,), pytorch.GRADIENT, "planted")], whole=True) == []
    elsewhere = [Reason(("mul in complex128",), pytorch.GRADIENT, ""), Reason(("mul",), "Function.backward.double", "")]
    assert len(pytorch.problems([row], elsewhere, whole=True)) == 3
    assert "| `mul` | `Function.backward.gradient` | planted |" in pytorch.page(
        [row], [Reason(("mul",), pytorch.GRADIENT, "planted")]
    )


def test_a_mutant_that_is_missed_is_a_problem():
    row = {"implementation": "mul in float64", "operator": "mul", "dtype": "float64", "verdict": "conforms"}
    row |= {"found": {}, "mutants": {"doubled": "caught", "one input lost": "missed: pass"}}
    assert pytorch.problems([row], []) == ["mul in float64: missed: one input lost: missed: pass"]


def test_a_process_that_dies_or_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr(isolated, "DEADLINE", 5.0)

    def do(job):
        if job == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == "hangs":
            time.sleep(600)
        return job

    found = set(isolated.isolated(["lives", "dies", "hangs"], do, lambda job, status: f"{job}: {status}"))
    assert found == {"lives", "dies: -9", "hangs: -9"}


@pytest.mark.skipif(DATA["machine"]["torch"] != torch.__version__, reason="the operators of another release")
def test_the_data_are_of_operators_that_there_are_in_their_order():
    judged = [row["implementation"] for row in DATA["rows"]]
    assert judged == [name for name in ENTRIES if name in set(judged)], "run python -m tests.proof pytorch --new"


@pytest.mark.skipif(DATA["machine"]["torch"] != torch.__version__, reason="the operators of another release")
def test_the_data_have_no_accusation_and_no_miss_without_a_reason_and_the_page_shows_them():
    reasons = pytorch.reasons()
    assert pytorch.problems(DATA["rows"], reasons, whole=True) == []
    assert PYTORCH.with_suffix(".md").read_text(encoding="utf-8") == pytorch.page(DATA["rows"], reasons)
