"""What the suite must not accuse, where no correct implementation among ``tests/correct`` can show it."""

from __future__ import annotations

import itertools
import re
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from conformance import GROUP, ConformanceError, check
from conformance.kit.process import isolation
from conformance.kit.world import World
from conformance.suite.test_collective_backward import _is_refused
from tests.correct import collective_splits, domains, generators, meanings
from tests.faults.command import reported, run
from tests.modules import module
from tests.planted._square import Square


class SoftWhereGradientsAreWanted(torch.autograd.Function):
    """A relaxation: another function where no gradient is wanted."""

    @staticmethod
    def forward(ctx, x):
        if not ctx.needs_input_grad[0]:
            return (x > 0.5).to(x.dtype)
        ctx.save_for_backward(torch.sigmoid(x))
        return torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y * (1 - y)


def test_differences_are_those_of_the_function_that_was_differentiated():
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    check(SoftWhereGradientsAreWanted, (x,), only="test_gradient_is_the_derivative")


class Tiny(torch.autograd.Function):
    """A weight so small that gradcheck forgives any gradient of it."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 1e-7

    @staticmethod
    def backward(ctx, grad):
        return grad * 1e-7 * ctx.factor, None


def told(report):
    """What the broken clauses of a report say, in one line."""
    broken = [clause for subject in report.subjects for clause in subject.clauses if clause.broken]
    return " ".join(" ".join(test.message for clause in broken for test in clause.tests).split())


def test_what_gradcheck_forgives_is_accused_where_forward_shows_it():
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: Tiny.apply(x, 2.0), (x,))
    check(Tiny, (x, 1.0), only="test_gradient_is_the_derivative")
    with pytest.raises(ConformanceError) as caught:
        check(Tiny, (x, 2.0), only="test_gradient_is_the_derivative")
    assert re.search(r"-?[0-9.e-]+ \(noise [0-9e.-]+\)", told(caught.value.report))


class AddsUp(torch.autograd.Function):
    """Adds up over all ranks, forward and back."""

    @staticmethod
    def forward(ctx, x):
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone()
        dist.all_reduce(total)
        return total


class AddsUpGradients(AddsUp):
    """Adds up on the way back alone."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)


def why_incomplete(function):
    """The one reason why nothing can be said of a Function; no clause is broken."""
    with pytest.raises(ConformanceError) as caught:
        check(function, (torch.ones(3, requires_grad=True),))
    (subject,) = caught.value.report.subjects
    assert subject.verdict == "incomplete"
    assert not [clause.id for clause in subject.clauses if clause.broken]
    (reason,) = {clause.reason for clause in subject.clauses if clause.verdict == "skipped"}
    return reason


@pytest.mark.parametrize("function", [AddsUp, AddsUpGradients])
def test_a_function_that_needs_a_group_is_asked_to_say_so_and_is_not_accused(function):
    assert "needs a process group" in why_incomplete(function)


class ReturnsNothing(torch.autograd.Function):
    """Its backward is never called."""

    @staticmethod
    def forward(ctx, x):
        return None

    @staticmethod
    def backward(ctx, grad):
        return grad


class ReturnsANumber(ReturnsNothing):
    """The result is no tensor, and has no graph."""

    @staticmethod
    def forward(ctx, x):
        return float(x.sum())


@pytest.mark.parametrize("function", [ReturnsNothing, ReturnsANumber])
def test_a_function_that_returns_no_tensor_does_not_conform_by_default(function):
    assert "backward never runs" in why_incomplete(function)


def test_a_warning_filter_that_comes_with_an_import_is_no_change_of_state() -> None:
    """sympy adds one of its own category when it is first imported, and torch imports it in the middle of a call."""

    class Imported(Warning):
        """A category of some library's own."""

    with warnings.catch_warnings():
        before = isolation.snapshot()
        warnings.simplefilter("once", Imported)
        assert not isolation.changed_facts(before, isolation.snapshot())
        warnings.simplefilter("ignore")
        assert isolation.changed_facts(before, isolation.snapshot()) == ["warning filters"]


FIRST_COMPILED = module("Lazy", forward="import torch._dynamo\nreturn x * 2")


def test_what_torch_changes_when_its_compiler_is_first_imported_is_no_change_of_state(tmp_path: Path) -> None:
    """It wraps ``torch.manual_seed`` and names a cache folder in the environment."""
    (tmp_path / "lazy.py").write_text(FIRST_COMPILED)
    words = ("lazy:Lazy", "--inputs", "lazy:inputs", "-k", "test_global_state_is_left_as_found", "--report", "out")
    assert run("run", *words, cwd=tmp_path)[2] == ""
    outcomes = [(test["outcome"], test["message"]) for test in reported(tmp_path / "out" / "report.json", "lazy:Lazy")]
    assert ("pass", "") in outcomes
    assert {word for word, _ in outcomes} == {"pass", "skip"}, outcomes


class LeavesADefaultDevice(Square):
    """Right in its numbers, and rude."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        torch.set_default_device("meta")
        return x * x


def test_a_default_device_that_a_function_leaves_is_no_wrong_gradient() -> None:
    x = torch.linspace(1, 2, 6, dtype=torch.float64).requires_grad_()
    report = check(LeavesADefaultDevice, (x,))
    (subject,) = report.subjects
    broken = {clause.id for clause in subject.clauses if clause.verdict in {"fail", "error"}}
    assert "Function.forward.deterministic" in broken
    assert subject.verdict == "deviates"


def test_a_rank_that_refuses_a_second_derivative_once_is_asked_again():
    """Gloo's thread and autograd race where a result that nobody can differentiate is written."""
    refusals = [RuntimeError("a view was modified in place")]

    def gradient(samples):
        if refusals:
            raise refusals.pop()
        return [sample * sample for sample in samples]

    other = World(size=2, exchange=lambda value: [value, ""])
    assert _is_refused(gradient, [torch.ones(2, requires_grad=True)], other) is False


class LosesTheLast(torch.autograd.Function):
    """Right for all elements but the last one."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        wrong = grad * 3
        wrong[-1, -1] = 0
        return wrong


def test_a_wrong_gradient_is_shown_where_it_is_wrong():
    x = torch.rand(4, 5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as caught:
        check(LosesTheLast, (x,), only="test_gradient_is_the_derivative")
    said = told(caught.value.report)
    assert "gradient of input 0 of sample 0, most at [3, 4]" in said
    assert "actual: tensor[4x5] float64 [..., 0]" in said


class ReturnsAnotherShape(torch.autograd.Function):
    """PyTorch refuses what backward returns, and no line of the class says more."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return (grad * 3).reshape(-1)


def test_what_pytorch_refuses_is_told_without_the_suite_in_it():
    x = torch.rand(4, 5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as caught:
        check(ReturnsAnotherShape, (x,))
    said = told(caught.value.report)
    assert "invalid gradient at index 0" in said
    assert "conformance/kit" not in said


class _Unprintable:
    def __repr__(self):
        raise ValueError("no words for it")


class KeepsUnderLongKeys(torch.autograd.Function):
    """Keeps its input in a dict whose keys nobody wants to read."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = {bytes(range(128, 228)): x, _Unprintable(): x}
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


def test_keys_on_the_way_to_a_tensor_are_told_in_short():
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as caught:
        check(KeepsUnderLongKeys, (x,), only="test_ctx_holds_no_tensor", strict=True)
    said = told(caught.value.report)
    assert "ctx.kept[b'" in said
    assert "_Unprintable" in said
    assert len(said) < 400


def test_a_class_made_in_a_function_may_refuse_to_be_differentiated_twice():
    """What the decorator brings along is no module that an import would find by its name."""

    class Once(AddsUp):
        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            total = grad.clone()
            dist.all_reduce(total)
            return total

    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    check(Once, (x,), spec="Collective", types="P -> R", ranks=2, only="Collective.backward.gradient")


@pytest.mark.parametrize("name", ["Root", "RootAtZero", "Power", "Arccosine", "Probabilities"])
def test_what_forward_refuses_beside_a_sample_breaks_nothing(name):
    function = getattr(domains, name)
    report = check(function, next(getattr(function, "inputs", domains.inputs)()))
    assert report.subjects[0].verdict == "conforms"


@pytest.mark.parametrize("function", [generators.SketchesByItsOwnSeed, generators.FillsMemoryByItsOwnSeed])
def test_numbers_from_a_seed_of_its_own_are_others_in_another_dtype_or_layout(function):
    report = check(function, next(function.inputs()))
    assert report.subjects[0].verdict == "conforms"


@pytest.mark.parametrize("function", [collective_splits.ByLists, collective_splits.ByCounts])
def test_ranks_go_along_with_a_derived_sample_or_none_does(function):
    place = f"{function.__module__}:{function.__name__}"
    words = ["run", place, "--spec", "Collective", "--types", function.TYPES, "--inputs", f"{place}.inputs"]
    ended, told, _ = run(*words, "--ranks", "2,3", "--no-compile", cwd=Path(__file__).parents[1])
    assert (ended, "conforms" in told) == (0, True), told


class Leftovers(meanings.ListedLengths):
    """Leaves other numbers in each call in the rows that the lengths do not cover."""

    left = itertools.count(5.0)

    @staticmethod
    def backward(ctx, grad):
        # Freed at once: the next tensors of this size get their memory.
        _ = [grad.new_full((ctx.rows, grad.shape[1]), next(Leftovers.left)) for _ in range(8)]
        del _
        return meanings.ListedLengths.backward(ctx, grad)


def test_rows_that_other_lengths_leave_unwritten_accuse_nobody():
    check(Leftovers, *meanings.ListedLengths.inputs(), only="Function.backward.gradient")


class AddsAlong(torch.autograd.Function):
    """Add up from rank to rank. What lies otherwise in memory is refused by whoever receives, and by nobody else."""

    @staticmethod
    def forward(ctx, x):
        return _added_along(x, dist.get_rank() - 1, dist.get_rank() + 1)

    @staticmethod
    def backward(ctx, g):
        return _added_along(g, dist.get_rank() + 1, dist.get_rank() - 1)


def _added_along(x: torch.Tensor, source: int, goal: int) -> torch.Tensor:
    total, ranks = x.clone(), range(dist.get_world_size())
    if source in ranks:
        received = torch.empty_like(total)
        dist.recv(received, source)
        total += received
    if goal in ranks:
        dist.send(total.contiguous(), goal)
    return total


def test_what_one_rank_refuses_in_another_layout_says_nothing_of_attributes():
    sample, clause = (torch.randn(2, 3, dtype=torch.float64, requires_grad=True),), "Function.forward.flags-untouched"
    report = check(AddsAlong, sample, spec="Collective", types="V -> V", ranks=2, simulated=True, only=clause)
    assert {each.verdict for each in report.subjects[0].clauses if each.id == clause} == {"pass"}


def test_what_backward_starts_is_named_alike_on_ranks_that_start_something_else():
    sample, clause = (torch.randn(2, 3, dtype=torch.float64, requires_grad=True),), "Collective.backward.twice"
    report = check(AddsAlong, sample, spec="Collective", types="V -> V", ranks=2, simulated=True, only=clause)
    (twice,) = [each for each in report.subjects[0].clauses if each.id == clause]
    said = "backward starts recv, send, which autograd may not see"
    assert {each.likely for each in twice.tests} == {said}


class MeansOfColumns(torch.autograd.Function):
    """Returns the mean of what all ranks have of each column: no number for a column that no rank has."""

    @staticmethod
    def forward(ctx, x, counts, group):
        total, count = (x * counts).sum(0), counts.sum(0)
        dist.all_reduce(total, group=group)
        dist.all_reduce(count, group=group)
        ctx.save_for_backward(counts, count)
        return total / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        counts, count = ctx.saved_tensors
        return torch.where(count > 0, grad / count, 0) * counts, None, None


@pytest.mark.parametrize(
    "clause",
    [
        "Collective.forward.types",
        "Collective.forward.any-layout",
        "Collective.backward.any-layout",
        "Collective.group.subgroup",
        "Collective.group.two-at-once",
    ],
)
@pytest.mark.parametrize("types", ["V, I -> I", "P, I -> I"])
def test_a_result_that_is_not_a_number_everywhere_is_compared_where_it_is_one(types, clause):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    sample = x, torch.tensor([[1.0, 0.0, 1.0, 1.0]] * 3, dtype=torch.float64), GROUP
    report = check(MeansOfColumns, sample, spec="Collective", types=types, ranks=2, simulated=True, only=clause)
    broken = {"fail", "error", "timeout"}
    assert not [test.message for each in report.subjects[0].clauses for test in each.tests if test.outcome in broken]
