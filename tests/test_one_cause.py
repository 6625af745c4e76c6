"""One cause, one accusation: what follows from a mistake is not reported beside it, and does not depend on luck."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from conformance import GROUP, ConformanceError, check
from conformance.kit.unwritten import FillMode
from tests.correct import collective as right
from tests.planted import collective_unwaited as wrong

X = torch.linspace(0.3, 1.7, 12, dtype=torch.float64).view(4, 3).requires_grad_()


class FirstRowLeftUnwritten(torch.autograd.Function):
    """Backward fills all rows but the first, which forward does not read."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x[1:]

    @staticmethod
    def backward(ctx, grad):
        gradient = torch.empty_like(ctx.saved_tensors[0])
        gradient[1:] = 2 * grad
        return gradient


class LastRowLeftUnwritten(torch.autograd.Function):
    """Forward adds a row, and writes nothing to it."""

    @staticmethod
    def forward(ctx, x):
        result = x.new_empty(len(x) + 1, *x.shape[1:])
        result[:-1] = 2 * x
        return result

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad[:-1]


class CountOnTheClass(torch.autograd.Function):
    """Keeps on the class how many rows it averages: PyTorch refuses the gradient of another number of them."""

    @staticmethod
    def forward(ctx, x):
        CountOnTheClass.rows = x.shape[0]
        return x.mean(0)

    @staticmethod
    def backward(ctx, grad):
        return (grad / CountOnTheClass.rows).expand(CountOnTheClass.rows, *grad.shape)


class ZeroTakenForNone(torch.autograd.Function):
    """The samples are in front of the output, and an out_dim of zero is taken for none."""

    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

    @staticmethod
    def vmap(info, in_dims, x):
        return ZeroTakenForNone.apply(x), in_dims[0] or None


def broken(function):
    with pytest.raises(ConformanceError) as caught:
        check(function, (X,), strict=True)
    (subject,) = caught.value.report.subjects
    return [clause.id for clause in subject.clauses if clause.broken and clause.verdict != "consequence"], " ".join(
        str(caught.value).replace("|", "").split()
    )


@pytest.mark.parametrize(
    ("function", "clause", "said"),
    [
        (FirstRowLeftUnwritten, "Function.backward.gradient", "looks like memory of torch.empty or a similar"),
        (LastRowLeftUnwritten, "Function.forward.deterministic", "looks like memory of torch.empty or a similar"),
        (CountOnTheClass, "Function.forward.calls-independent", "looks like backward reads values of the last forward"),
        (ZeroTakenForNone, "Function.vmap.out-dims", "out_dims for output 0 of sample 0 with in_dims (0)"),
    ],
)
def test_what_follows_from_a_mistake_is_not_accused_beside_it(function, clause, said):
    clauses, text = broken(function)
    assert clauses == [clause], text
    assert said in text


class SinglePrecisionAlone(torch.autograd.Function):
    """Takes float32."""

    @staticmethod
    def forward(ctx, x):
        return x @ torch.ones(3, 3)

    @staticmethod
    def backward(ctx, grad):
        return grad @ torch.ones(3, 3)


def test_a_call_that_takes_single_precision_asks_for_such_samples():
    _, text = broken(SinglePrecisionAlone)
    assert "it takes float32, but the samples are float64: give float32 samples" in text
    check(SinglePrecisionAlone, (X.detach().float().requires_grad_(),), only="Function.apply.accepts")


@torch.library.custom_op("conformance_tests::scale_", mutates_args={"x"})
def scale_(x: torch.Tensor, factor: float) -> None:
    """Scale in place."""
    x.mul_(factor)


@pytest.mark.filterwarnings("ignore:.*pip install autograd-conformance-operator")
def test_an_operator_that_changes_its_argument_is_named_and_asks_for_a_call_that_returns_it():
    with pytest.raises(ConformanceError) as caught:
        check(scale_, (X, 2.0))
    text = " ".join(str(caught.value).split())
    assert "return the changed tensor in call=" in text
    assert text.startswith("conformance_tests::scale_ incomplete")


class DoubledModule(torch.nn.Module):
    """Its gradient is three times what comes in."""

    def forward(self, x):
        return Tripled.apply(x)


class Tripled(torch.autograd.Function):
    """Twice its input, with another gradient."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad


def test_of_a_compiled_module_the_module_is_judged():
    module = torch.compile(DoubledModule(), backend="eager")
    with pytest.raises(ConformanceError, match=r"tests\.test_one_cause:DoubledModule fails"):
        check(module, (X,), only="Function.backward.gradient")


def test_another_result_without_grad_makes_no_wrong_gradient():
    with pytest.raises(ConformanceError) as caught:
        check(
            wrong.SumsWhereAGradientIsNeeded, (X, GROUP), spec="Collective", types="P -> I", ranks=(2, 3), strict=True
        )
    (subject,) = caught.value.report.subjects
    assert [clause.id for clause in subject.clauses if clause.broken] == ["Function.forward.same-without-grad"]


def test_what_a_collective_works_on_is_left_alone_until_its_wait():
    name = "test_what_is_under_way_in_forward_is_left_alone"
    arguments = {"spec": "Collective", "ranks": (2, 3), "only": name}
    check(right.ScalesAfterItWasSummed, (X, GROUP), types="P -> I", **arguments)
    check(right.GatherUnderWay, (X, GROUP), types="V -> I", **arguments)
    for function in (wrong.ScalesWhileItIsSummed, wrong.ScalesARowWhileItIsSummed):
        with pytest.raises(ConformanceError, match="changed between the start of the collective and its wait"):
            check(function, (X, GROUP), types="P -> I", **arguments)


class CountsItsCalls(torch.autograd.Function):
    """Backward is right for the latest call alone; which group it was in makes no difference."""

    calls = 0

    @staticmethod
    def forward(ctx, x, group):
        CountsItsCalls.calls += 1
        ctx.call, ctx.group, total = CountsItsCalls.calls, group, x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        gradient = grad.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return (gradient if ctx.call == CountsItsCalls.calls else 2 * gradient), None


def test_calls_that_disturb_each_other_anywhere_point_to_that_clause():
    arguments = {"spec": "Collective", "types": "P -> R", "ranks": 3, "only": "Collective.group.two-at-once"}
    report = check(CountsItsCalls, (X, GROUP), **arguments)
    (said,) = [test.message for clause in report.subjects[0].clauses for test in clause.tests if test.outcome == "fail"]
    assert said.endswith("; see Function.forward.calls-independent")  # as a consequence of it where that is run too


@pytest.mark.parametrize("held", [torch.nan, 0.0, 3.0])
@pytest.mark.parametrize(
    ("function", "clause"),
    [
        (FirstRowLeftUnwritten, "Function.backward.gradient"),
        (LastRowLeftUnwritten, "Function.forward.deterministic"),
    ],
)
def test_what_new_memory_held_changes_no_verdict(function, clause, held):
    with FillMode(held):
        assert broken(function)[0] == [clause]


class FreesItsResult(torch.autograd.Function):
    """Its backward frees the memory of its result, as reversible layers do."""

    @staticmethod
    def forward(ctx, x):
        ctx.result = x * 2
        return ctx.result

    @staticmethod
    def backward(ctx, grad):
        ctx.result.untyped_storage().resize_(0)
        return grad * 2


@pytest.mark.parametrize("test", ["test_calls_that_differ_do_not_mix", "test_gradient_in_another_dtype"])
def test_a_result_that_backward_frees_is_left_out_of_the_comparison(test):
    check(FreesItsResult, (X,), only=test)
