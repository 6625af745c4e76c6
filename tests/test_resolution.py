"""What a pass of the gradient's clause says of itself, and what does not pass."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.function import once_differentiable

from conformance import ConformanceError, check
from conformance.core.errors import UsageError
from conformance.core.options import RunOptions, read_resolution
from tests.correct import domains, function_inputs, grids

GRADIENT = "Function.backward.gradient"


class Product(torch.autograd.Function):
    """A product in bfloat16 alone, perhaps of signs alone, whose gradient of x is ``factor`` times too large."""

    @staticmethod
    def forward(ctx, x, w, factor=1.0, signs=False):
        if x.dtype != torch.bfloat16:
            raise TypeError("the kernel takes bfloat16")
        if signs and not bool((x.abs() == 1).all()):
            raise ValueError("the kernel takes signs")
        ctx.save_for_backward(x, w)
        ctx.factor = factor
        return x @ w

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return ctx.factor * (grad @ w.mT), x.mT @ grad, None, None


def samples(*others):
    generator = torch.Generator().manual_seed(4)
    x, w = (torch.randn(*shape, generator=generator).bfloat16() for shape in ((8, 16), (16, 8)))
    return (x.sign() if len(others) > 1 else x, w, *others)


def judged(*others, **options):
    """How the test that looks for derivatives ended."""
    name = "test_gradient_is_the_derivative"
    try:
        report = check(Product, samples(*others), only=name, **options)
    except ConformanceError as error:
        report = error.report
    (found,) = [test for test in report.subjects[0].clause(GRADIENT).tests if name in test.nodeid]
    return found


def plain(x, w, factor, signs):
    return x @ w


def test_a_pass_says_how_small_an_error_would_have_been_seen():
    test = judged()
    assert test.outcome == "pass"
    assert "would have been detected (adjoint identity, 73 calls)" in test.reason
    (rank,) = test.ranks
    assert [one.of for one in rank.judgements] == ["input 0 of sample 0", "input 1 of sample 0"]
    assert all(one.verdict == "agrees" and one.resolution < 0.02 for one in rank.judgements)


@pytest.mark.parametrize(
    ("factor", "likely"), [(2.0, "the right value times 2"), (1.03, ""), (-1.0, "the sign is wrong")]
)
def test_a_wrong_gradient_in_bfloat16_fails_and_says_by_how_much(factor, likely):
    test = judged(factor)
    assert test.outcome == "fail"
    assert "times the expected size" in test.message
    assert test.likely == likely
    (wrong,) = [one for one in test.ranks[0].judgements if one.verdict == "differs"]
    assert wrong.error == pytest.approx(factor - 1, abs=0.02)


def test_what_no_oracle_tells_is_no_pass_and_says_what_helps():
    test = judged(1.0, True)
    assert test.outcome == "skip"
    assert "give reference=" in test.reason
    assert judged(1.0, True, reference=plain).outcome == "pass"
    assert judged(1.3, True, reference=plain).outcome == "fail"


class Rounded(torch.autograd.Function):
    """Rounds, and passes the gradient straight through, without saying so."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_among_many_steps_a_surrogate_is_no_pass_and_is_told():
    x = torch.linspace(-3, 3, 512, dtype=torch.float64).reshape(16, 32).requires_grad_()
    with pytest.raises(ConformanceError) as caught:
        check(Rounded, (x,), only="Function.backward.gradient")
    (subject,) = caught.value.report.subjects
    assert subject.verdict == "incomplete"
    assert "looks like the surrogate gradient" in subject.clause("Function.backward.gradient").reason


def test_a_reference_that_computes_something_else_is_no_pass_either():
    test = judged(1.0, True, reference=lambda x, w, factor, signs: x @ w + x.sum())
    assert test.outcome == "skip"
    assert "reference= must compute the same as forward" in test.reason


class PassesWhatIsMasked(domains.MaskedScores):
    """Lets gradients through results of minus infinity, where differences show nothing."""

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad, None


def test_a_reference_decides_about_results_that_are_infinite():
    def masked(x, mask):
        return torch.where(mask, x * x, -torch.inf)

    (sample,) = domains.MaskedScores.inputs()
    check(domains.MaskedScores, sample, reference=masked, only=GRADIENT)
    with pytest.raises(ConformanceError, match="reference, 3 calls"):
        check(PassesWhatIsMasked, sample, reference=masked, only=GRADIENT)


@pytest.mark.parametrize(
    "right",
    [
        domains.MaskedScores,
        domains.MaskedByAddition,
        domains.SoftmaxOfMaskedScores,
        function_inputs.RealBesideComplex,
        grids.FloorOfMany,
    ],
)
def test_what_is_infinite_complex_or_rounded_leaves_nothing_unjudged(right):
    check(right, *right.inputs(), only=GRADIENT)


def test_a_reference_for_what_has_no_derivative_is_refused():
    with pytest.raises(UsageError, match="reference= is for spec Function"):
        check(Product, samples(), reference=plain, formula=lambda args, grads: grads)


@pytest.mark.parametrize("text", ["0", "101", "-5", "much", ""])
def test_a_resolution_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="give a number of percent"):
        read_resolution(text)


def test_the_resolution_is_an_option_of_a_run():
    assert RunOptions.from_text({"resolution": "40"}).resolution == 0.4


class Perturbed(torch.autograd.Function):
    """Whether noise takes a number above zero; the gradient is the score, which depends on what was drawn."""

    @staticmethod
    def forward(ctx, x, factor):
        noise = torch.randn_like(x)
        y = (x + noise > 0).to(x.dtype)
        ctx.save_for_backward(y, noise)
        ctx.factor = factor
        return y

    @staticmethod
    def backward(ctx, grad):
        y, noise = ctx.saved_tensors
        return ctx.factor * grad * y * noise, None


def score(args, grads, forward):
    with forward.random():
        noise = torch.randn_like(args[0])
    return (grads[0] * forward.results[0] * noise,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_formula_is_given_what_forward_returned_and_drew(dtype):
    x = torch.linspace(-1, 1, 9, dtype=dtype)
    assert check(Perturbed, (x, 1.0), formula=score).subjects[0].verdict == "conforms"
    for factor in (2.0, 1.1):
        with pytest.raises(ConformanceError) as caught:
            check(Perturbed, (x, factor), formula=score, only=GRADIENT)
        assert caught.value.report.subjects[0].clause(GRADIENT).verdict == "fail"


def test_the_formula_goes_on_with_the_numbers_of_backward():
    def formula(args, grads, forward):
        with forward.random():
            torch.rand(3)
        return (grads[0] * torch.rand_like(grads[0]),)

    class Sampled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return grad * torch.rand_like(grad)

    check(Sampled, (torch.linspace(-1, 1, 9, dtype=torch.float64),), formula=formula)
