"""Spec Collective from outside: ``GROUP``, types, and work in subgroups."""

from __future__ import annotations

import pickle
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from conformance import GROUP, ConformanceError, Subject, check
from conformance.cli.commands import main
from conformance.core.errors import UsageError
from conformance.core.outcomes import BROKEN
from conformance.core.signatures import parse
from conformance.kit.process_groups import placed
from conformance.kit.typed_samples import typed
from conformance.kit.world import World
from conformance.run.references import reference_subjects
from tests.correct import collective as right
from tests.correct import collective_declared as right_declared
from tests.correct import collective_half as right_half
from tests.correct import collective_hooks as right_hooks
from tests.one_gradient import flat, gradient_of, matrix
from tests.planted import collective as wrong
from tests.planted import collective_compiled as wrong_compiled
from tests.planted import collective_half as wrong_half
from tests.planted import collective_hooks as wrong_hooks

ROOT = Path(__file__).parents[1]


def test_the_group_is_the_same_object_after_a_journey():
    assert pickle.loads(pickle.dumps((1, GROUP)))[1] is GROUP
    assert placed((GROUP, {"group": GROUP, "x": 1}), "it") == ("it", {"group": "it", "x": 1})


def test_a_collective_that_keeps_its_types_conforms():
    assert gradient_of(right.Copy, types="I -> R").verdict == "pass"


def test_a_wrong_signature_is_refuted_and_the_right_one_named():
    with pytest.raises(ConformanceError) as error:
        gradient_of(right.GatherForOneLoss, types="V -> R")
    said = "V -> R is not kept with sample 0: on rank 0 the gradient lacks the contribution of rank 1's loss"
    assert said in flat(error)
    assert "it keeps V -> I instead" in flat(error)


class Largest(torch.autograd.Function):
    """The largest of all ranks, whose gradient goes to every rank."""

    @staticmethod
    def forward(ctx, x, index, group):
        y = x.clone()
        dist.all_reduce(y, op=dist.ReduceOp.MAX, group=group)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class SumsTwice(Largest):
    """Some rows of a sum; backward adds up what is the same everywhere."""

    @staticmethod
    def forward(ctx, x, index, group):
        ctx.group, ctx.shape = group, x.shape
        ctx.save_for_backward(index)
        y = x[index]
        dist.all_reduce(y, group=group)
        return y

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        total = grad.clone()
        dist.all_reduce(total, group=ctx.group)
        return grad.new_zeros(ctx.shape).index_add(0, index, total), None, None


@pytest.mark.parametrize(
    ("function", "types", "instead"),
    [(Largest, "V, R -> R", ""), (SumsTwice, "P, R -> I", "it keeps P, R -> R instead")],
)
def test_what_is_kept_instead_is_named_where_it_says_something(function, types, instead):
    arguments = (matrix(), torch.tensor([1, 0]), GROUP)
    with pytest.raises(ConformanceError) as error:
        check(function, arguments, spec="Collective", types=types, ranks=2, only="test_gradients_are_those_owed")
    assert ("looks like" in flat(error)) is bool(instead)
    assert instead in flat(error)


def test_without_types_the_signature_is_found():
    report = check(
        right.GatherForOneLoss, (matrix(), GROUP), spec="Collective", ranks=2, only="Collective.forward.types"
    )
    clause = report.subjects[0].clause("Collective.forward.types")
    assert (clause.verdict, clause.reason) == ("not-applicable", "no types were given; it keeps V -> I")


def _own_rows(args, grads):
    x, group = args
    return grads[0][dist.get_rank(group) * len(x) :][: len(x)], None


def test_a_declared_gradient_takes_the_place_of_the_derivative():
    given = {"types": "V -> R", "formula": _own_rows}
    assert gradient_of(right.GatherForOneLoss, **given).verdict == "pass"
    with pytest.raises(ConformanceError) as error:
        gradient_of(right.RingGather, **given)
    assert "V -> R, by the formula that is declared, is not kept with sample 0: on rank 0 the gradient" in flat(error)


@pytest.mark.parametrize("name", ["scaled_up", "scaled_down", "mean", "clipped"])
def test_what_is_not_the_declared_gradient_is_found_by_any_type(name):
    subject = getattr(right_declared, name)
    wrong = replace(subject, formula=lambda args, grads: (2 * subject.formula(args, grads)[0],))
    with pytest.raises(ConformanceError) as error:
        check(wrong, ranks=2, only="Collective.backward.gradient")
    assert "is 0.5 times the expected one" in flat(error)


@pytest.mark.parametrize(
    ("bug", "cause", "unjudged"),
    [
        (wrong.CopyWithoutSum, "backward.gradient", ["backward.types", "backward.twice"]),
        (wrong.FirstShareTimesSize, "forward.types", ["backward.twice"]),
        (wrong.SumWithoutResult, "forward.types", ["backward.gradient", "group.subgroup"]),
        (wrong.NoSignature, "backward.gradient", ["backward.types", "forward.any-layout", "group.subgroup"]),
    ],
)
def test_what_cannot_be_judged_because_of_a_wrong_gradient_is_a_consequence(bug, cause, unjudged):
    with pytest.raises(ConformanceError) as error:
        check(bug, (matrix(), GROUP), spec="Collective", types=getattr(bug, "TYPES", ""), ranks=2)
    found = {own.id: (own.verdict, own.reason) for own in error.value.report.subjects[0].clauses}
    for name in unjudged:
        assert found[f"Collective.{name}"] == ("consequence", f"Collective.{cause}")
    assert [name for name, (verdict, _) in found.items() if verdict in BROKEN] == [f"Collective.{cause}"]


def test_a_declared_gradient_needs_types():
    with pytest.raises(UsageError, match="a declared gradient of a collective needs types="):
        gradient_of(right.RingGather, formula=_own_rows)


class SumWithOthers(torch.autograd.Function):
    """A sum that has to be one of several ranks."""

    @staticmethod
    def forward(ctx, x, group):
        if dist.get_world_size(group) == 1:
            raise ValueError("there is no other rank")
        return right.AllReduce.forward(ctx, x, group)

    @staticmethod
    def backward(ctx, grad):
        return right.AllReduce.backward(ctx, grad)


@pytest.mark.parametrize(
    "clause", ["Collective.group.subgroup", "Collective.group.two-at-once", "Collective.forward.one-rank"]
)
def test_a_subject_that_is_judged_among_several_ranks_is_not_asked_to_work_alone(clause):
    subject = Subject(SumWithOthers, spec="Collective", types="P -> R", inputs=[(matrix(), GROUP)], ranks=(2,))
    found = check(subject, ranks=2, only=clause).subjects[0].clause(clause)
    # There is a group of two in another order.
    assert found.verdict == ("pass" if clause.endswith("subgroup") else "not-applicable")
    assert not found.reason or "it is judged with 2 ranks only" in found.reason


@pytest.mark.parametrize("simulated", [False, True])
def test_a_collective_that_refuses_one_rank_breaks_the_clause_on_that_alone(simulated):
    sample = matrix(), GROUP
    report = check(SumWithOthers, sample, spec="Collective", types="P -> R", ranks=3, simulated=simulated)
    (one_rank,) = [each for each in report.subjects[0].clauses if each.broken or each.verdict == "consequence"]
    assert one_rank.id == "Collective.forward.one-rank"
    assert "Subject(..., ranks=(2, 3))" in one_rank.tests[0].message


class SumThatRankZeroRefuses(right.AllReduce):
    """A sum that rank 0 alone refuses if its argument is not contiguous."""

    @staticmethod
    def forward(ctx, x, group):
        if dist.get_rank(group) == 0 and not x.is_contiguous():
            raise ValueError("another layout, please")
        return right.AllReduce.forward(ctx, x, group)


@pytest.mark.parametrize("simulated", [False, True])
def test_a_layout_that_one_rank_refuses_while_others_wait_is_told_with_its_error(simulated):
    with pytest.raises(ConformanceError) as error:
        check(
            SumThatRankZeroRefuses,
            (matrix(), GROUP),
            spec="Collective",
            types="P -> R",
            ranks=2,
            only="Collective.forward.any-layout",
            simulated=simulated,
            strict=True,
        )
    assert "rank 0, not rank 1: ValueError: another layout, please" in flat(error)


class SumThatIsNoNumber(right.AllReduce):
    """A sum that is no number anywhere."""

    @staticmethod
    def forward(ctx, x, group):
        return right.AllReduce.forward(ctx, x, group) * torch.nan


@pytest.mark.parametrize("ranks", [1, 2])
def test_results_that_are_no_numbers_leave_the_gradient_unjudged(ranks):
    with pytest.raises(ConformanceError, match="incomplete") as error:
        check(
            SumThatIsNoNumber,
            (matrix(), GROUP),
            spec="Collective",
            types="P -> R",
            ranks=ranks,
            only="Collective.backward.gradient" if ranks > 1 else "Collective.forward.one-rank",
            simulated=True,
        )
    assert "no gradient of sample 0 is judged: its results are infinite or not a number" in flat(error)


class SumFromRankZero(torch.autograd.Function):
    """A sum whose backward needs rank 0 of all ranks, which is not in every group."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return right.AllReduce.forward(ctx, x, group)

    @staticmethod
    def backward(ctx, grad):
        dist.get_group_rank(ctx.group, 0)
        return right.AllReduce.backward(ctx, grad)


def test_a_backward_that_raises_in_the_group_of_one_rank_alone_is_told():
    with pytest.raises(ConformanceError) as error:
        check(
            SumFromRankZero,
            (matrix(), GROUP),
            spec="Collective",
            types="P -> R",
            ranks=2,
            only="Collective.group.two-at-once",
            strict=True,
        )
    assert "Global rank 0 is not part of group" in flat(error)


class TinyOfItsOwn(torch.autograd.Function):
    """Another tiny number on every rank, such as memory holds that nothing was written to."""

    @staticmethod
    def forward(ctx, x, group):
        return torch.full_like(x, 1e-310 * (1 + dist.get_rank(group)))

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad), None


def test_tiny_numbers_that_differ_are_no_rounding():
    with pytest.raises(ConformanceError) as error:
        check(
            TinyOfItsOwn,
            (matrix(), GROUP),
            spec="Collective",
            types="P -> I",
            ranks=2,
            only="Collective.forward.types",
        )
    assert "as on rank 0, bit for bit" in flat(error)
    assert "rounding alone" not in flat(error)


class LeftBehind(torch.autograd.Function):
    """Rank 0 returns before the others have begun, with what it had itself."""

    @staticmethod
    def forward(ctx, x, group):
        total = x.clone()
        if dist.get_rank(group) == 0:
            dist.all_reduce(total, group=group, async_op=True)
        else:
            time.sleep(0.1)
            dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def test_a_result_that_is_not_waited_for_is_the_cause_of_wrong_types():
    with pytest.raises(ConformanceError) as error:
        check(
            LeftBehind, (matrix(), GROUP), spec="Collective", types="P -> I", ranks=2, only="Collective.forward.types"
        )
    assert "asynchronous work is left behind in forward: wait for it" in flat(error)


class MeanHandingOn(torch.autograd.Function):
    """A mean over ranks, but for the gradient."""

    @staticmethod
    def forward(ctx, x):
        mean = x / dist.get_world_size()
        dist.all_reduce(mean)
        return mean

    @staticmethod
    def backward(ctx, grad):
        return grad


def alone():
    yield (matrix(),)


@pytest.mark.parametrize("more", [(), ("-k", "test_alike_results_are_alike")], ids=["all", "one test of the clause"])
def test_without_types_the_report_names_those_that_are_kept(monkeypatch, capfd, more):
    """A mean whose backward hands the gradient on keeps the types of what is the same on all ranks, and conforms."""
    monkeypatch.chdir(ROOT)
    words = ("--spec", "Collective", "--inputs", "tests.test_collective:alone", "--ranks", "2", "--no-compile")
    main(("run", "tests.test_collective:MeanHandingOn", *words, *more))
    said = " ".join(capfd.readouterr().out.split())
    assert "no types were given; it keeps R -> R and I -> I and P -> P; say which you mean with --types" in said


def test_without_types_what_keeps_no_signature_fails():
    with pytest.raises(ConformanceError, match=r"signatures that .* keeps\n.*actual: +none"):
        gradient_of(wrong.NoSignature)


def test_types_are_read_from_the_hook_of_a_class():
    report = check(
        right_hooks.GatherForOneLoss, (matrix(), GROUP), spec="Collective", ranks=2, only="Collective.forward.types"
    )
    clause = report.subjects[0].clause("Collective.forward.types")
    assert clause.verdict == "pass"  # not applicable, where types are found


def test_a_hook_that_says_what_is_not_kept_is_refuted():
    with pytest.raises(ConformanceError) as error:
        gradient_of(wrong_hooks.GatherForOneLossTypedForMany)
    assert "V -> R, declared for spmd_types, is not kept with sample 0" in flat(error)
    assert "it keeps V -> I instead" in flat(error)


class TakesNothing(right.Copy):
    @staticmethod
    def spmd_typecheck(*, x, group):
        from spmd_types import SpmdTypeError

        raise SpmdTypeError("not today")


def test_a_hook_that_takes_no_type_is_said():
    said = r"what it declares for spmd_types takes tensors of no type\s+\(not today\): mend it, or\s+give types"
    with pytest.raises(ConformanceError, match=f"incomplete(.|\n)*{said}"):
        gradient_of(TakesNothing)


class NoticesSpmdTypes(right.Copy):
    @staticmethod
    def forward(ctx, x, group):
        assert "spmd_types" not in sys.modules
        return right.Copy.forward(ctx, x, group)


def test_spmd_types_is_not_imported_for_a_class_without_a_hook():
    assert gradient_of(NoticesSpmdTypes).verdict == "pass"


def test_a_result_that_waits_when_it_is_read_is_complete():
    gathered = functional.all_gather_single_autograd
    report = check(
        gathered, (matrix(), 0, GROUP), spec="Collective", types="V -> R", ranks=2, only="Collective.forward.complete"
    )
    clause = report.subjects[0].clause("Collective.forward.complete")
    assert clause.verdict == "pass"


def test_a_hundred_elements_are_moved_along_directions():
    x = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as error:
        check(
            wrong.CopyWithMean,
            (x, GROUP),
            spec="Collective",
            types="I -> R",
            ranks=2,
            only="test_gradients_are_those_owed",
        )
    assert "0.5 times the expected one" in flat(error)


class SumsWhatItRounds(torch.autograd.Function):
    """A sum over the ranks of numbers in eight bits, with the gradient of those that came in."""

    @staticmethod
    def forward(ctx, x, group):
        total = x.to(torch.float8_e4m3fn).to(x.dtype)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


def test_a_gradient_of_steps_over_ranks_is_to_be_declared():
    args = (matrix(), GROUP)
    with pytest.raises(ConformanceError) as error:
        check(SumsWhatItRounds, args, spec="Collective", types="V -> I", ranks=2, simulated=True)
    assert "1 broken clause" in flat(error)
    assert "the surrogate gradient of a step function; if it is intended, declare it with formula=" in flat(error)
    right = Subject(SumsWhatItRounds, inputs=[args], types="V -> I", formula=lambda args, grads: (grads[0], None))
    assert check(right, spec="Collective", ranks=2, simulated=True).subjects[0].verdict == "conforms"


def test_what_the_compiler_refuses_on_one_rank_alone_is_told_and_no_timeout():
    with pytest.raises(ConformanceError) as error:
        check(
            wrong_compiled.RefusedOnOneRank,
            (matrix(), GROUP),
            spec="Collective",
            types="P -> I",
            ranks=2,
            only="Function.compile.agrees",
            strict=True,
        )
    assert "ERROR Function.compile.agrees" in flat(error)
    assert "rank 1 of 2" in flat(error)
    assert "TorchRuntimeError" in flat(error)


class RaisesOnOneRank(torch.autograd.Function):
    """A sum over the ranks whose backward raises on one of them, while the others wait for it."""

    @staticmethod
    def forward(ctx, x, group):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        if dist.get_rank() == 1:
            raise ValueError("nothing for the second rank")
        total = grad.clone()
        dist.all_reduce(total)
        return total, None


def test_an_error_of_one_rank_in_backward_breaks_one_clause_and_is_told_with_its_line():
    with pytest.raises(ConformanceError) as error:
        check(RaisesOnOneRank, (matrix(), GROUP), spec="Collective", types="P -> I", ranks=2, simulated=True)
    assert "1 broken clause" in flat(error)
    assert "ERROR Collective.backward.gradient" in flat(error)
    assert "ValueError: nothing for the second rank" in flat(error)
    assert 'raise ValueError("nothing for the second rank")' in flat(error)


class FillsTheInputOfOthers(torch.autograd.Function):
    """A broadcast into the argument itself, which changes on every rank but the first."""

    @staticmethod
    def forward(ctx, x):
        dist.broadcast(x, 0)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        total = grad.contiguous().clone()
        dist.all_reduce(total)
        return total * (dist.get_rank() == 0)


def test_an_input_that_changes_on_one_rank_alone_is_told_and_no_timeout():
    """All ranks make the call that tells how it was changed, those too on which nothing was."""
    only = "Function.mark_dirty.complete"
    subject = Subject(FillsTheInputOfOthers, spec="Collective", types="V -> R", inputs=alone)
    with pytest.raises(ConformanceError, match="forward changes in place") as raised:
        check(subject, ranks=2, only=only)
    assert "not finished" not in str(raised.value)


def test_the_compiler_is_not_kept_from_collectives_by_the_notes_that_are_taken_of_them():
    report = check(
        wrong_compiled._Reduce,
        (matrix(), GROUP),
        spec="Collective",
        types="P -> I",
        ranks=2,
        only="Function.compile.fullgraph",
    )
    clause = report.subjects[0].clause("Function.compile.fullgraph")
    assert (clause.verdict, clause.reason) == ("pass", "")


def test_ranks_hold_values_by_their_types():
    samples = Subject(right.Copy, spec="Collective", inputs=[(torch.ones(2), torch.ones(2), GROUP)]).examples(World())
    first, second = (typed(samples, "V, I -> V", World(rank, 2))[0].args for rank in (0, 1))
    assert not torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert first[2] is None  # there is no process group here


def test_every_reference_collective_is_a_subject_with_its_types():
    collectives = [subject for subject in reference_subjects() if subject.spec == "Collective"]
    claimed = {subject.reference.rpartition(":")[2]: subject.types for subject in collectives}
    assert claimed["GatherReplicate"] == claimed["GatherReplicateSeparate"] == "V -> R"
    assert len(claimed) == 18
    assert all(parse(types) for types in claimed.values())


def test_what_is_wrong_in_double_precision_is_told_in_the_same_words_of_every_dtype():
    with pytest.raises(ConformanceError) as error:
        gradient_of(wrong.GatherWithNeighboursSlice, types="V -> I")
    clause = error.value.report.subjects[0].clause("Collective.backward.gradient")
    broken = [
        test for test in clause.tests if test.outcome == "fail" and "test_gradients_are_those_owed" in test.nodeid
    ]
    assert len(broken) > 1
    assert {test.message for test in broken} == {broken[0].message}
    assert "on rank 0 the gradient is the gradient that rank 1 must have" in broken[0].message


def owed(result):
    """The test of gradients over all ranks, by dtype."""
    tests = (test for test in result.tests if "test_gradients_are_those_owed" in test.nodeid)
    return {test.nodeid.rpartition("-")[2].rstrip("]"): test for test in tests}


def test_a_pass_says_what_it_would_have_detected():
    tests = owed(gradient_of(right.GatherForOneLoss, types="V -> I"))
    assert {dtype: test.reason.partition(",")[0] for dtype, test in tests.items()} == {
        "float64": "a relative error of 1e-06 would have been detected (differences over all ranks",
        "float32": "a relative error of 1e-04 would have been detected (differences over all ranks",
        "bfloat16": "a factor of 1.1",
    }
    (judgement,) = tests["float64"].ranks[0].judgements
    assert (judgement.of, judgement.verdict) == ("argument 0 of sample 0", "agrees")


def test_a_kernel_of_half_precision_alone_is_judged_over_all_ranks_to_its_resolution():
    (sample,) = right_half.inputs()
    with pytest.raises(ConformanceError) as error:
        check(wrong_half.TenthMoreHalfAlone, sample, spec="Collective", types="V -> R", ranks=(2,), simulated=True)
    assert "the gradient of argument 0 over all ranks is 1.1 times the expected one (adjoint identity" in flat(error)


def test_without_types_a_kernel_of_half_precision_alone_is_not_judged_and_is_told_what_to_give():
    (sample,) = right_half.inputs()
    with pytest.raises(ConformanceError) as error:
        check(right_half.GathersHalfAlone, sample, spec="Collective", ranks=(2,), simulated=True)
    said = "it takes half precision alone, too coarse to find its types: give its types, such as --types"
    assert error.value.report.subjects[0].verdict == "incomplete"
    assert said in flat(error)
