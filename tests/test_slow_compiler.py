"""A compiler that is slow, or switched off, is no fault of the Function: the clause is left open, and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.core.catalog import suite
from conformance.core.outcomes import RankOutcome
from conformance.core.plan import PlannedTest
from conformance.ranks.second_look import still_compiling
from tests.faults.command import reported, run, start
from tests.modules import module

COMPILES = next(test for test in suite() if test.function == "test_compiled_it_gives_the_same")
WHILE_COMPILING = 'File "/lib/torch/_dynamo/symbolic_convert.py", line 1556 in step'
WHILE_RUNNING = (
    'File "/lib/torch/_dynamo/eval_frame.py", line 1076 in compile_wrapper\n  File "layers.py", line 9 in forward'
)
WHILE_TRACING = (
    'File "/lib/torch/_subclasses/functional_tensor.py", line 669 in __torch_dispatch__\n'
    '  File "/lib/torch/_dynamo/eval_frame.py", line 1446 in _fn\n  File "/lib/torch/fx/interpreter.py", line 3'
)
#: The compiler unrolls the loop, which is none in eager mode.
UNROLLED = module(
    "Unrolled",
    "for _ in range(10**8 if torch.compiler.is_compiling() else 0):\n    x = x + 0\nreturn x * 2",
)


def test_a_slow_compilation_is_left_open_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(UNROLLED)
    words = ("layers:Unrolled", "--inputs", "layers:inputs", "--timeout", "8", "-k", "test_compiled_it_gives_the_same")
    status, out, _ = run("run", *words, "--report", "out", cwd=tmp_path)
    tests = reported(tmp_path / "out" / "report.json", "layers:Unrolled")
    (compiled,) = [test for test in tests if "test_compiled_it_gives_the_same" in test["nodeid"]]
    assert (compiled["outcome"], status) == ("skip", 1), compiled["message"]
    assert "PyTorch was still compiling when the deadline passed; raise --timeout" in compiled["reason"]
    assert "broken clause" not in out


@pytest.mark.parametrize("switch", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_a_compiler_that_is_switched_off_shows_nothing(tmp_path: Path, switch: str) -> None:
    (tmp_path / "layers.py").write_text(module("Plain", "return x * 2"))
    words = ("layers:Plain", "--inputs", "layers:inputs", "-k", "test_compiled_it_gives_the_same or captured_whole")
    start("run", *words, "--report", "out", cwd=tmp_path, env={switch: "1"})
    tests = reported(tmp_path / "out" / "report.json", "layers:Plain")
    compiled = [test for test in tests if test["reason"] != "not selected"]
    assert len(compiled) == 2
    assert all(test["outcome"] == "not-applicable" and switch in test["reason"] for test in compiled), compiled


@pytest.mark.parametrize(
    ("outcome", "stack", "compiles", "expected"),
    [
        ("timeout", WHILE_COMPILING, True, True),
        ("timeout", WHILE_TRACING, True, True),
        ("timeout", WHILE_RUNNING, True, False),
        ("timeout", WHILE_COMPILING, False, False),
        ("crash", WHILE_COMPILING, True, False),
    ],
)
def test_only_a_compiler_at_work_excuses(outcome: str, stack: str, compiles: bool, expected: bool) -> None:
    item = PlannedTest(replace(COMPILES, compiles=compiles), None, 1, False, ())
    assert still_compiling(item, [RankOutcome(0, outcome, "", stack=stack)]) is expected  # type: ignore[arg-type]


def test_a_bystander_excuses_nobody() -> None:
    item = PlannedTest(COMPILES, None, 2, True, ())
    waits = RankOutcome(1, "timeout", "", stack=WHILE_COMPILING, bystander=True)
    assert not still_compiling(item, [RankOutcome(0, "timeout", "", stack=WHILE_RUNNING), waits])
