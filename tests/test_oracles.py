"""Oracles see small errors in every dtype, state how small, and accuse no right kernel."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from conformance import Subject, check
from conformance.kit import World, every_sample
from conformance.kit.judgement import ELSEWHERE, Judgement
from conformance.kit.oracles import adjoint, derivative, gradient, vector_function
from conformance.kit.oracles.sample import judged_inputs
from conformance.kit.oracles.vector_function import VectorFunction
from tests.correct import matrices

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def function(forward, dtype, *args, mistake=lambda gradient: gradient, coarse=0.0):
    """A kernel of one dtype, as a function of its first argument, whose backward makes a mistake."""
    value, *others = (argument.to(dtype) for argument in args)

    def results(x):
        return forward(x.to(dtype).view(value.shape), *others).double().reshape(-1)

    def backward(x, g):
        leaf = x.to(dtype).view(value.shape).requires_grad_()
        result = forward(leaf, *others)
        (found,) = torch.autograd.grad(result, leaf, g.to(dtype).view(result.shape))
        return mistake(found.double()).to(dtype).double().reshape(-1)

    def rounded(x):
        return x.to(dtype).double()

    eps = torch.finfo(dtype).eps
    return VectorFunction(value.double().reshape(-1), results, backward, rounded, rounded, eps, max(eps, coarse))


def matmul(dtype, **mistake):
    return function(torch.matmul, dtype, numbers(3, 4), numbers(4, 5), **mistake)


def softmax(dtype, **mistake):
    return function(lambda x: F.softmax(x, -1), dtype, numbers(3, 4), **mistake)


def layer_norm(dtype, **mistake):
    return function(lambda x: F.layer_norm(x, x.shape[-1:]), dtype, numbers(3, 4), **mistake)


LINEAR = dict(zip(DTYPES, (1e-8, 1e-6, 1e-3, 1e-2), strict=True))
SMOOTH = dict(zip(DTYPES, (1e-8, 1e-4, 1e-2, 3e-2), strict=True))
CASES = [(matmul, LINEAR), (softmax, SMOOTH)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kind", "goals"), CASES)
def test_a_right_gradient_agrees_as_finely_as_the_goal(kind, goals, dtype):
    for seed in range(3):
        found = gradient.judge(kind(dtype), seed)
        assert found.verdict == "agrees"
        assert found.resolution <= goals[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kind", "goals"), CASES)
def test_an_error_of_three_times_the_resolution_differs(kind, goals, dtype):
    for factor in (3 * goals[dtype], 0.1, 1.0, -2.0):
        found = gradient.judge(kind(dtype, mistake=lambda right, factor=factor: (1 + factor) * right))
        assert found.verdict == "differs"
        assert found.error == pytest.approx(factor, rel=0.5)


SHAPES = {
    "rows in reverse order": lambda right: right.flip(0),
    "the sign of a row": lambda right: torch.cat([right[:-1], -right[-1:]]),
    "a column lost": lambda right: torch.cat([right[:, :-1], 0 * right[:, -1:]], 1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [matmul, softmax, layer_norm])
def test_an_error_of_another_shape_is_no_factor_and_differs(kind, shape, dtype):
    """Along the gradient such an error is another one for each draw: two looks need not agree on a number.

    In bfloat16 differences are coarse: what is not linear may be left unclear, but must not agree.
    """
    is_large = kind is softmax and shape == "rows in reverse order"
    allowed = {"differs"} if kind is matmul or dtype is not torch.bfloat16 or is_large else {"differs", "unclear"}
    for seed in range(3):
        found = gradient.judge(kind(dtype, mistake=SHAPES[shape]), seed)
        assert (found.verdict in allowed, found.likely) == (True, "")


@pytest.mark.parametrize("dtype", DTYPES[:3])
@pytest.mark.parametrize("kind", [matmul, softmax])
def test_a_lost_row_is_seen_though_the_rest_is_right(kind, dtype):
    def lost(right):
        return torch.cat([right[:-1], 0 * right[-1:]])

    assert gradient.judge(kind(dtype, mistake=lost)).verdict == "differs"


@pytest.mark.parametrize("dtype", DTYPES[2:])
def test_a_large_sample_in_half_precision_is_judged_along_its_gradient(dtype):
    """Any other direction changes so many results by less than rounding."""

    def many(**mistake):
        return function(lambda x: torch.logsumexp(x, -1), dtype, numbers(64, 128), **mistake)

    right = gradient.judge(many())
    assert right.is_finer_than(0.1)
    assert gradient.judge(many(mistake=lambda one: 1.1 * one)).verdict == "differs"


def test_which_oracle_judges_is_found_by_experiment():
    assert adjoint.judge(matmul(torch.float64)).oracle == adjoint.NAME
    assert adjoint.judge(softmax(torch.float64)) is None
    assert adjoint.judge(function(F.relu, torch.float64, numbers(5))) is None


@pytest.mark.parametrize("forward", [torch.abs, F.relu, torch.floor, lambda x: x.sort().values.cumsum(0), torch.sin])
def test_right_gradients_are_never_accused_in_any_dtype(forward):
    for dtype in DTYPES:
        assert gradient.judge(function(forward, dtype, numbers(40))).verdict != "differs"


def test_a_kink_that_is_met_is_unclear():
    assert gradient.judge(function(torch.abs, torch.float64, torch.zeros(4))).verdict != "differs"


def test_an_input_that_hardly_matters_is_not_judged():
    tiny = function(
        lambda x, y: y + 1e-11 * x, torch.float64, numbers(4), numbers(4), mistake=lambda right: 300 * right
    )
    assert (gradient.judge(tiny).verdict, gradient.judge(tiny).rule) == ("unclear", gradient.NEGLIGIBLE)
    alone = function(lambda x: 1e-7 * x, torch.float64, numbers(4), mistake=lambda right: 1.5 * right)
    assert gradient.judge(alone).verdict == "differs"


def test_single_precision_inside_is_told_by_its_noise():
    inside = function(lambda x: (x.float().exp() / 3).double(), torch.float64, numbers(9), coarse=1.2e-7)
    assert gradient.judge(inside).verdict == "agrees"


def test_a_gradient_of_zero_where_nothing_changes_is_right_and_elsewhere_wrong():
    still = function(torch.floor, torch.float64, torch.full((4,), 0.5))
    assert gradient.judge(still).resolution < 1e-10
    assert gradient.judge(softmax(torch.float64, mistake=lambda right: 0 * right)).verdict == "differs"
    assert gradient.judge(matmul(torch.float64, mistake=lambda right: 0 * right)).verdict == "differs"


@pytest.mark.parametrize(
    ("judge", "name"),
    [
        (adjoint.judge, "_finite"),
        (derivative.judge, "_finite"),
        (derivative.judge, "central"),
        (gradient.judge, "central"),
        (gradient.is_negligible, "central"),
    ],
)
def test_a_mistake_of_the_suite_is_no_refusal(monkeypatch, judge, name):
    monkeypatch.delattr(vector_function, name)
    with pytest.raises(NameError):
        judge(function(torch.exp, torch.float64, numbers(4)))


def test_small_errors_that_differ_between_measurements_may_be_meant(monkeypatch):
    """Those of an adjoint equation do, which solvers of differential equations follow."""

    def measured(apart, elsewhere):
        return Judgement("differs", derivative.NAME, ELSEWHERE, 0.0, 0.0, apart, 1e-5, elsewhere, apart=apart)

    for apart, verdict in ((2e-6, "agrees"), (2e-3, "unclear")):
        found = iter([measured(apart, 1e-9), measured(30 * apart, 1e-9)])
        monkeypatch.setattr(gradient, "_once", lambda function, seed, found=found: next(found))
        assert gradient.judge(softmax(torch.float64)).verdict == verdict


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (["unclear", "differs", "differs"], "differs"),
        (["unclear", "differs", "unclear"], "unclear"),
        (["agrees", "differs", "differs"], "agrees"),
    ],
)
def test_a_deviation_at_two_points_is_no_kink(monkeypatch, verdicts, verdict):
    found = iter([*verdicts, *["unclear"] * 9])
    monkeypatch.setattr(gradient, "judge", lambda function: Judgement(next(found), "made up"))
    (sample,) = every_sample(Subject(torch.sin, inputs=[(numbers(3),)]), World())
    (judged,) = judged_inputs(sample, World())
    assert judged.judgement.verdict == verdict


def test_gradients_that_change_from_call_to_call_say_nothing():
    calls = []

    def growing(right):
        calls.append(right)
        return len(calls) * right

    assert gradient.judge(matmul(torch.float64, mistake=growing)).verdict == "unclear"


@pytest.mark.parametrize("seed", range(4))
def test_points_beside_a_symmetric_matrix_are_symmetric(seed):
    torch.manual_seed(seed)
    samples = list(matrices.CubeOfSymmetric.inputs())
    check(matrices.CubeOfSymmetric, *samples, only="test_gradient_is_the_derivative")  # incomplete is an error
