"""The likely cause that a failure names, for bugs as they are really made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from conformance import ConformanceError, check
from conformance.core import catalog
from conformance.core.plan import PlannedTest, SubjectRef
from conformance.kit import expect
from conformance.kit.deviations import Deviation
from conformance.kit.diagnosis import likely_cause
from conformance.ranks.client import Forkserver
from conformance.ranks.pool import Pool
from conformance.ranks.settings import Settings
from spec_impl.torchlogix import GradFactor

SPEC = "AllGatherGradAutograd"
TESTS = {test.function: test for test in catalog.suite()}
SUM, CALLS = "test_gradient_is_the_sum_over_ranks", "test_each_call_has_its_own_sum"
#: Planted gather: the test, the number of ranks, and what its failure must look like.
GATHERS = {
    "Mean": (SUM, 3, "mean over ranks instead of sum"),
    "LocalSlice": (SUM, 2, "slice instead of sum: each rank's own gradient alone"),
    "TimesSize": (SUM, 3, "the sum times 3, the number of ranks"),
    "SliceTimesSize": (SUM, 3, "slice instead of sum, times 3, the number of ranks"),
    "OwnSlicesAllReduced": (SUM, 2, "gradients of different entries are mixed"),
    "NextRank": (SUM, 3, "the gradient of entry 1, which belongs to rank 1"),
    "ReversedRanks": (SUM, 2, "the gradient of entry 1, which belongs to rank 1"),
    "Largest": (SUM, 2, "the largest over ranks instead of the sum"),
    "FirstSumKept": (CALLS, 2, "a stale buffer: the gradient of an earlier call"),
}


@pytest.fixture(scope="module")
def pool(forkserver: Forkserver) -> Iterator[Pool]:
    with Pool(forkserver, Settings(path=(".",))) as pool:
        yield pool


@pytest.mark.parametrize("name", GATHERS)
def test_a_gather_that_is_wrong_is_named_as_what_it_does(pool: Pool, name: str) -> None:
    function, size, said = GATHERS[name]
    reference = f"spec_impl.ksuit.planted:{name}"
    test = TESTS[function]
    outcome = pool.run(PlannedTest(test, SubjectRef(reference, SPEC, None, reference), size, True, test.cases[0]))
    assert outcome.outcome == "fail", outcome.message
    assert said in outcome.likely, outcome.message


class Linear(torch.autograd.Function):
    """Multiplies by a square matrix; ``spoil`` is what is done to the gradient of x."""

    spoil = staticmethod(lambda right: right)

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @classmethod
    def spoiling(cls, how):
        return type("Spoilt", (cls,), {"spoil": staticmethod(how), "backward": staticmethod(_backward(how))})


def _backward(how):
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return how(grad @ w.t()), x.t() @ grad

    return backward


@pytest.mark.parametrize(
    ("how", "said"),
    {
        "sign": (lambda right: -right, "the sign is wrong"),
        "factor": (lambda right: right * 3, "the right value times 3"),
        "half": (lambda right: right / 2, "the right value times 0.5"),
        "zeros": (torch.zeros_like, "all zeros"),
        "transposed": (lambda right: right.t(), "transposed"),
        "symmetric": (lambda right: (right + right.t()) / 2, "the symmetric part"),
        "off by one": (lambda right: right.roll(1, 0), "shifted by one or more entries along dimension 0"),
        "off by one in each row": (lambda right: right.roll(2, 1), "shifted by one or more entries along dimension 1"),
        "rows from last to first": (lambda right: right.flip(0), "in reverse order along dimension 0"),
        "columns from last to first": (lambda right: right.flip(1), "in reverse order along dimension 1"),
        "not a number": (lambda right: right * float("nan"), "not a number"),
        "half precision": (lambda right: right.half().double(), ": float16 on the way"),
        "brain floats": (lambda right: right.bfloat16().double(), ": bfloat16 on the way"),
    }.values(),
)
def test_a_gradient_that_is_wrong_is_named_as_what_it_looks_like(how, said):
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(3, 3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))
    with pytest.raises(ConformanceError) as caught:
        check(Linear.spoiling(how), (x, w), only="test_gradient_is_the_derivative")
    (test,) = [
        test
        for clause in caught.value.report.subjects[0].clauses
        for test in clause.tests
        if clause.id == "Function.backward.gradient" and test.outcome == "fail"
    ]
    assert said in test.likely
    assert "looks like" in str(caught.value)


class _TwoOutputs(torch.autograd.Function):
    """The sine and the square of a tensor."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), x.square()

    @staticmethod
    def backward(ctx, of_sine, of_square):
        (x,) = ctx.saved_tensors
        return of_sine * x.cos() + 2 * of_square * x


class _IgnoresTheFirst(_TwoOutputs):
    @staticmethod
    def backward(ctx, of_sine, of_square):
        return _TwoOutputs.backward(ctx, torch.zeros_like(of_sine), of_square)


class _IgnoresTheSecond(_TwoOutputs):
    @staticmethod
    def backward(ctx, of_sine, of_square):
        return _TwoOutputs.backward(ctx, of_sine, torch.zeros_like(of_square))


class _ExchangesBoth(_TwoOutputs):
    @staticmethod
    def backward(ctx, of_sine, of_square):
        return _TwoOutputs.backward(ctx, of_square, of_sine)


class _HalvesTheSecond(_TwoOutputs):
    @staticmethod
    def backward(ctx, of_sine, of_square):
        return _TwoOutputs.backward(ctx, of_sine, of_square / 2)


@pytest.mark.parametrize("size", [5, 200])
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_IgnoresTheFirst, "the incoming gradient of output 0 is ignored"),
        (_IgnoresTheSecond, "the incoming gradient of output 1 is ignored"),
        (_ExchangesBoth, "the incoming gradients of outputs 0 and 1 are exchanged"),
        (_HalvesTheSecond, "the gradient by output 1 times 0.5 is missing"),
    ],
)
def test_what_became_of_the_gradient_of_one_of_several_outputs_is_named(function, said, size):
    x = torch.linspace(0.3, 1.7, size, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as caught:
        check(function, (x,), only="test_gradient_is_the_derivative")
    (likely,) = {
        test.likely
        for clause in caught.value.report.subjects[0].clauses
        for test in clause.tests
        if test.outcome == "fail"
    }
    assert likely == said


def test_entries_out_of_place_along_any_dimension_are_named():
    right = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4) ** 1.5
    assert likely_cause(right.roll(1, 2), right, {}) == "shifted by one or more entries along dimension 2"
    assert likely_cause(right.flip(1), right, {}) == "in reverse order along dimension 1"
    assert likely_cause(right[0, 0].flip(0), right[0, 0], {}) == "in reverse order"
    assert likely_cause(right.flip(1, 2), right, {}) == "the right numbers in another order"
    rows = "the right numbers in another order along dimension 1: 1, 0, 2"
    assert likely_cause(right[:, [1, 0, 2]], right, {}) == rows


def test_every_matrix_of_a_batch_may_be_transposed():
    right = torch.arange(18.0, dtype=torch.float64).reshape(2, 3, 3) ** 1.5
    assert likely_cause(right.mT, right, {}) == "transposed"
    assert likely_cause(right.transpose(0, 1).reshape(2, 3, 3), right, {}) == (
        "dimensions 0 and 1 exchanged, and reshaped"
    )
    matrix = torch.arange(6.0, dtype=torch.float64).view(2, 3) ** 1.5
    assert likely_cause(matrix.t().reshape(2, 3), matrix, {}) == "transposed, and reshaped"


def test_single_precision_is_told_from_rounding():
    right = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) / 7
    assert likely_cause(right.float().double(), right, {}) == "right to five digits: float32 on the way"
    assert likely_cause(right * (1 + 1e-7), right, {}) == "right to five digits"


def test_rounding_to_the_dtype_of_the_result_is_no_cause():
    right = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) / 7
    assert likely_cause(right.float() * (1 + 1e-6), right, {}) == "right to five digits"
    assert not likely_cause(right.half() * torch.tensor([1.005, 0.99, 1.02]).half(), right, {})


def test_what_would_be_rounded_to_itself_tells_nothing():
    right = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert likely_cause(right + torch.tensor([0.0, 0.0, 2.0**-17]), right, {}) == "right to five digits"


def test_a_stale_buffer_is_named_where_a_test_knows_what_was_there_before():
    earlier, right = torch.tensor([1.0, 5.0]), torch.tensor([2.0, 3.0])
    assert likely_cause(earlier, right, {"the values of an earlier call": earlier}) == "the values of an earlier call"


def test_values_that_tell_nothing_are_given_no_cause():
    right = torch.tensor([1.0, 2.0, 3.0])
    for actual in (torch.tensor([7.0, 1.0, 4.0]), torch.zeros(2), torch.zeros(0), 5, None):
        assert not likely_cause(actual, right, {})
    assert not likely_cause(right, torch.zeros(3), {})


@pytest.mark.parametrize(
    ("factor", "shown"),
    [(2 / 3, "2/3"), (1.8333333, "11/6"), (0.4, "0.4"), (1e-9, "1e-09"), (0.7071067, "0.707107"), (-3.0, "-3")],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_one_factor_for_the_whole_is_named(factor, shown, dtype):
    right = torch.tensor([1.0, 2.0, 3.0], dtype=dtype)
    assert likely_cause(right * factor, right, {}) == f"the right value times {shown}"


def _with(place, factor):
    wrong = MATRIX.clone()
    wrong[place] *= factor
    return wrong


MATRIX = torch.arange(1.0, 21.0, dtype=torch.float64).view(4, 5) ** 1.5
SCATTERED = torch.zeros(4, 5, dtype=torch.bool)
SCATTERED[[0, 1, 3], [0, 3, 1]] = True


@pytest.mark.parametrize(
    ("place", "factor", "said"),
    [
        ((slice(None), 1), 0.5, "times 0.5 in [:, 1], and right elsewhere"),
        ((slice(None), slice(3, None)), 0.0, "zero in [:, 3:], and right elsewhere"),
        ((slice(2),), 2 / 3, "times 2/3 in [:2], and right elsewhere"),
        ((slice(None), slice(None, None, 2)), 2.0, "times 2 in [:, ::2], and right elsewhere"),
        ((2, slice(1, 4)), -1.0, "times -1 in [2, 1:4], and right elsewhere"),
        (SCATTERED, 0.0, "zero in 3 of 20 elements, and right elsewhere"),
        (SCATTERED, 3.0, "times 3 in 3 of 20 elements, and right elsewhere"),
    ],
)
def test_one_factor_for_a_part_is_named_with_the_part(place, factor, said):
    assert likely_cause(_with(place, factor), MATRIX, {}) == said


def test_a_part_in_which_nothing_fits_is_not_explained():
    wrong = MATRIX.clone()
    wrong[:, 1] += torch.tensor([0.1, -2.0, 0.7, 1.3])
    assert not likely_cause(wrong, MATRIX, {})


def test_a_term_that_is_missing_is_named():
    bias, other = MATRIX.cos(), {"the gradient of input 2": MATRIX.sin()}
    whole = bias + other["the gradient of input 2"]
    assert likely_cause(bias, whole, {}, other) == "the gradient of input 2 is missing"
    assert likely_cause(whole, bias, {}, other) == "the gradient of input 2 is added to it"
    half = bias + other["the gradient of input 2"] / 2
    assert likely_cause(half, whole, {}, other) == "the gradient of input 2 times 0.5 is missing"
    assert not likely_cause(bias + MATRIX.tan(), whole, {}, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_as_precise_as_a_narrower_dtype_are_said_to_be_that(dtype):
    name = str(dtype).removeprefix("torch.")
    assert likely_cause(MATRIX.to(dtype).double() * (1 + 1e-7), MATRIX, {}) == f"right to {name} only"
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(4, 5, dtype=torch.float64, generator=generator)
    assert not likely_cause(MATRIX * (1 + 0.03 * noise), MATRIX, {})


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.complex64])
def test_tensors_of_every_dtype_have_a_cause_or_none(dtype):
    one, other = torch.tensor([1, 0, 1, 1]).to(dtype), torch.tensor([0, 1, 1, 0]).to(dtype)
    assert isinstance(likely_cause(one, other, {}), str)


def test_one_number_has_no_telling_factor():
    assert not likely_cause(torch.tensor([6.0]), torch.tensor([2.0]), {})


@pytest.mark.parametrize("place", [0, 17])
def test_values_that_print_alike_are_shown_with_the_digits_and_the_elements_in_which_they_differ(place):
    right = torch.linspace(1, 2, 20, dtype=torch.float64)
    actual = right.clone()
    actual[place] += 1e-8
    with pytest.raises(Deviation) as caught:
        expect.close(actual, right, "a tensor")
    assert caught.value.actual != caught.value.expected


@pytest.mark.parametrize("tolerance", [{"rtol": 0, "atol": 0}, {"rtol": 0.0, "atol": 1e-16}])
def test_a_tolerance_of_zero_means_zero(tolerance):
    one = torch.ones(2, dtype=torch.float64)
    expect.close(one, one, "a tensor", **tolerance)
    with pytest.raises(Deviation):
        expect.close(one + 1e-15, one, "a tensor", **tolerance)


class DoublesTheLast(Linear):
    """Changes an element of the incoming gradient that a message does not begin with."""

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad.view(-1)[-1] *= 2
        return grad @ w.t(), x.t() @ grad


def test_a_gradient_that_was_changed_is_shown_where_it_was():
    x, w = (torch.ones(4, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    with pytest.raises(ConformanceError) as caught:
        check(DoublesTheLast, (x, w), only="test_incoming_gradients_are_left_alone", strict=True)
    (message,) = {
        test.message
        for clause in caught.value.report.subjects[0].clauses
        for test in clause.tests
        if test.outcome == "fail"
    }
    actual, expected = (
        next(line for line in message.splitlines() if word in line) for word in ("actual:", "expected:")
    )
    assert actual.removeprefix("actual:").strip() != expected.removeprefix("expected:").partition(", as it")[0].strip()


class WeightedByItsSize(torch.autograd.Function):
    """Zero where the size is, and a gradient of the first input that divides by the second."""

    @staticmethod
    def forward(ctx, x, size):
        ctx.save_for_backward(x, size)
        return x * size

    @staticmethod
    def backward(ctx, grad):
        x, size = ctx.saved_tensors
        return grad * size * size / size, grad * x


def test_the_input_that_has_the_zero_is_named():
    x, size = (torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
    with pytest.raises(ConformanceError, match="gradient of input 0 of sample 0 with 0 in input 1"):
        check(WeightedByItsSize, (x, size), only="test_gradient_is_finite_at_a_zero")


def test_a_tensor_that_changes_once_it_was_compared_is_not_shown_as_what_it_should_be():
    """As what a collective fills that nobody waited for: by the time that it is shown, it is right."""

    class Filled(torch.Tensor):
        reads = 0

        def detach(self) -> torch.Tensor:
            Filled.reads += 1
            return torch.zeros(2) if Filled.reads == 1 else torch.ones(2)

    with pytest.raises(Deviation, match="differed when it was compared, and changed since") as caught:
        expect.close(torch.ones(2).as_subclass(Filled), torch.ones(2), "the gradient")
    assert "still running" in caught.value.likely


class Halved(GradFactor):
    """A product, and half of its gradient: a mistake."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.f = factor / 2
        return x * factor


@pytest.mark.parametrize(
    ("function", "factor", "said"),
    [
        (GradFactor, -1.0, "the sign is wrong; if it is intended, declare it with formula="),
        (GradFactor, 0.25, "the right value times 0.25; if it is intended, declare it with formula="),
        (Halved, 3.0, "the right value times 0.5"),
    ],
)
def test_a_gradient_of_the_identity_may_be_intended(function, factor, said):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as caught:
        check(function, (x, factor), only="Function.backward.gradient")
    told = " ".join(str(caught.value).split())
    assert f"looks like {said} reproduce" in told
