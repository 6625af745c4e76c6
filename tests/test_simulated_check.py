"""``check(..., simulated=True)``: all ranks in the calling process, in its debugger, proved to hang where they do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from conformance import GROUP, ConformanceError, check
from tests.correct import collective as right
from tests.correct import collective_awaited as awaited
from tests.correct import collective_hooks as right_hooks

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def sample():
    return torch.randn(2, 3, dtype=torch.float64, requires_grad=True), GROUP


class LeavesOutTheFirst(right.Copy):
    @staticmethod
    def backward(ctx, grad):
        total = grad.clone(memory_format=torch.contiguous_format)
        if dist.get_rank():
            dist.all_reduce(total)
        return total, None


class LeftBehind(right.Copy):
    @staticmethod
    def backward(ctx, grad):
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, async_op=True)
        return total, None


def checked(function, **options):
    return check(function, sample(), spec="Collective", types="I -> R", ranks=(2, 3), simulated=True, **options)


@pytest.mark.parametrize("options", [{}, {"schedule": 7}])
def test_a_right_collective_conforms_in_every_world_and_leaves_the_process_as_it_was(options):
    hook, dtype = sys.excepthook, torch.get_default_dtype()
    report = checked(right.Copy, **options)
    assert report.subjects[0].verdict == "conforms"
    assert not dist.is_initialized()
    assert (sys.excepthook, torch.get_default_dtype()) == (hook, dtype)
    assert report.environment["backend"] == ("simulated:7" if options else "simulated")


@pytest.mark.parametrize(
    ("options", "call"), [({}, "simulated=True)"), ({"schedule": 7}, "simulated=True, schedule=7)")]
)
def test_a_hang_is_proved_with_the_line_and_the_call_that_replays_it(options, call):
    with pytest.raises(ConformanceError) as caught:
        checked(LeavesOutTheFirst, only="Collective.backward.gradient", **options)
    (subject,) = caught.value.report.subjects
    tests = [test for clause in subject.clauses for test in clause.tests if test.outcome == "timeout"]
    assert tests
    name, line = "test_simulated_check.py", LeavesOutTheFirst.backward.__code__.co_firstlineno + 4
    for test in tests:
        assert re.search(rf"rank 1 waits in all_reduce\(.*\) by SUM, {name}:{line}, in backward", test.message)
        assert test.likely.startswith("rank 0 left out all_reduce")
        assert test.reproduce.endswith(call)


def test_work_that_nobody_waits_for_is_named_as_the_cause():
    with pytest.raises(ConformanceError, match="asynchronous work is left behind"):
        checked(LeftBehind, only="Collective.backward.gradient")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": 7}, "schedule=7 is for simulated ranks: pass simulated=True"),
        ({"simulated": True, "schedule": -1}, "schedule=-1: give a seed, a whole number from 0"),
        ({"simulated": True, "schedule": True}, "schedule=True: give a seed, a whole number from 0"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        check(right.Copy, sample(), spec="Collective", types="I -> R", ranks=2, **options)


def test_a_deadline_that_nobody_could_keep_is_refused():
    """Ranks are threads of the caller: one that loops by itself cannot be ended."""
    with pytest.raises(ValueError, match=r"timeout=5 is for rank processes: .* leave out simulated=True"):
        checked(right.Copy, timeout=5)


def test_types_of_another_number_of_results_are_refused():
    with pytest.raises(ValueError, match="2 results"):
        check(right.Copy, sample(), spec="Collective", types="I -> R, R", ranks=2, simulated=True)


def test_a_breakpoint_in_backward_stops_in_the_debugger_of_the_caller(tmp_path):
    script = tmp_path / "debugged.py"
    script.write_text(
        textwrap.dedent("""
            import torch, torch.distributed as dist
            from conformance import GROUP, check
            from tests.correct.collective import Copy

            class Stops(Copy):
                stopped = False

                @staticmethod
                def backward(ctx, grad):
                    if dist.get_rank() == 1 and not Stops.stopped:
                        Stops.stopped = True
                        breakpoint()
                    return Copy.backward(ctx, grad)

            x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
            check(Stops, (x, GROUP), spec="Collective", types="I -> R", ranks=2, simulated=True)
            print("went on")
        """),
        encoding="utf-8",
    )
    commands = "p 'here', dist.get_rank(), grad.shape\nbt\nc\n"
    done = subprocess.run(
        [sys.executable, script], input=commands, capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert "('here', 1, torch.Size([2, 3]))" in done.stdout, done.stdout + done.stderr
    assert "debugged.py" in done.stdout
    assert done.stdout.endswith("went on\n"), done.stdout + done.stderr


def test_types_declared_for_spmd_types_are_read_on_each_rank_by_itself():
    """Its checker replaces Function.apply for the whole process, and would put it back while other ranks need it."""
    pytest.importorskip("spmd_types", reason="pip install spmd-types")
    gather, only = right_hooks.GatherForOneLoss, "Collective.backward.gradient"
    report = check(gather, sample(), spec="Collective", ranks=2, simulated=True, only=only)
    assert report.subjects[0].clause(only).verdict == "pass"


def test_results_that_are_under_way_can_be_read_whatever_ran_before():
    """They are of a class that PyTorch's own guards, taken in the wrong order, once left without memory."""
    report = check(right.ReduceUnderWay, sample(), spec="Collective", types="P -> I", ranks=(2,), simulated=True)
    assert report.subjects[0].verdict == "conforms"


@pytest.mark.parametrize("only", ["Function.forward.no-tensor-on-ctx", "Function.forward.frees-memory"])
def test_work_that_only_backward_waits_for_keeps_no_tensor(only):
    """What a simulated rank keeps until such work ends is not the Function's."""
    function = awaited.DoublesWhileOthersCompare
    report = check(function, sample(), spec="Collective", types="V -> V", ranks=2, simulated=True, only=only)
    assert report.subjects[0].clause(only).verdict == "pass"
