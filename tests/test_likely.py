"""A likely cause is named for the bug that it is about, and not for a neighbour that breaks the same test."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

from conformance import GROUP, ConformanceError, Subject, check
from conformance.kit.search import NOT_MEANT
from tests import neighbours as bugs
from tests.planted import alike, collective, modes, numbers, save, sparse, state, vmap_generated

BESIDE = "a tensor that was stored without save_for_backward"
SECOND = "test_second_derivative_is_right_or_refused"
BETWEEN, APART = "a result of forward that is neither", "reads this input without a graph"
IN_ORDER = "assumes contiguous memory"
BUFFER = "share a buffer"
#: The bug, the test that sees it, and the cause that it must name.
NAMED = [
    (bugs.KeptBeside, "test_hooks_can_carry_saved_tensors_away", f"{BESIDE}: ctx.x"),
    (bugs.KeptUntilBackward, "test_hooks_can_carry_saved_tensors_away", f"{BESIDE}: ctx.x"),
    (save.KeptInAClosure, "test_hooks_can_carry_saved_tensors_away", f"{BESIDE}: ctx.derivative"),
    (save.KeptAsNumpy, "test_hooks_can_carry_saved_tensors_away", f"{BESIDE}: ctx.array"),
    (bugs.KeptBeside, "test_a_change_in_place_is_noticed_or_does_no_harm", "save_for_backward did not save"),
    (state.SavesDotData, "test_a_change_in_place_is_noticed_or_does_no_harm", "an alias"),
    (bugs.KeptElsewhere, "test_a_change_in_place_is_noticed_or_does_no_harm", "in a way that PyTorch cannot notice"),
    (bugs.ChangesBack, "test_arguments_are_left_as_they_are", "changed back, up to rounding"),
    (bugs.ReadsInOrder, "test_layout_of_inputs_makes_no_difference", f"forward {IN_ORDER}"),
    (bugs.SavesInOrder, "test_layout_of_inputs_makes_no_difference", f"backward {IN_ORDER}"),
    (bugs.Normalizes, "test_zeros_give_zeros", "the size of the whole gradient"),
    (bugs.DividesByEach, "test_zeros_give_zeros", "elements of the gradient"),
    (bugs.ScalesTheGradient, "test_incoming_gradients_are_left_alone", "changes the gradient in place"),
    (bugs.ScalesTheData, "test_incoming_gradients_are_left_alone", "through .data"),
    (bugs.OneBuffer, "test_a_gradient_survives_the_next_backward", BUFFER),
    (bugs.OneOutput, "test_outputs_survive_the_next_call", BUFFER),
    (bugs.OneWorkspace, "test_calls_that_differ_do_not_mix", "forward writes again into a tensor that an earlier call"),
    (bugs.Rounded, "test_gradient_is_the_derivative", "float16 on the way"),
    (bugs.RoundedAtRandom, "test_gradient_is_the_derivative", "backward draws random numbers"),
    (bugs.TakesItsResultForTheLoss, "test_gradient_is_the_derivative", "assumes that its incoming gradient is one"),
    (
        bugs.IgnoresTheFlag,
        "test_lazily_negated_gradients_are_taken_as_they_read",
        "ignores the conjugate or negative bit",
    ),
    (bugs.TransposesItsInput, "test_every_changed_input_is_marked_dirty", "shape or strides were changed"),
    (bugs.ScalesItsInputsData, "test_every_changed_input_is_marked_dirty", "through .data"),
    (bugs.SavesAViewOfItsOutput, "test_memory_is_freed_with_the_outputs", "a view of an output"),
    (bugs.KeptElsewhere, "test_memory_is_freed_with_the_outputs", "a global"),
    (bugs.KeepsItsPullback, "test_memory_is_freed_with_the_outputs", "ctx.pull is a function that may hold a result"),
    (bugs.ForwardModeInside, "test_tangent_is_the_directional_derivative", "uses forward mode itself"),
    (bugs.SavedForBackwardAlone, "test_tangent_is_the_directional_derivative", "calls save_for_backward alone"),
    (bugs.StopsWithinAThreshold, "test_gradient_grows_with_the_loss", "backward stops within an absolute tolerance"),
    (bugs.SavesItsSlope, SECOND, BETWEEN),
    (bugs.DecoratedForCtx, "test_attributes_of_arguments_are_left_alone", "custom_fwd on a forward without ctx"),
]
#: The neighbour, the test that sees it, and what must not be said of it.
NOT_NAMED = [
    (bugs.SecondFactorWrong, SECOND, BETWEEN),
    (bugs.SecondFactorWrong, SECOND, APART),
    (bugs.KnowsTheAddress, "test_hooks_can_carry_saved_tensors_away", BESIDE),
    (bugs.KeptElsewhere, "test_a_change_in_place_is_noticed_or_does_no_harm", "save"),
    (bugs.OtherNumbersElsewhere, "test_layout_of_inputs_makes_no_difference", IN_ORDER),
    (bugs.OtherGradientElsewhere, "test_layout_of_inputs_makes_no_difference", IN_ORDER),
    (bugs.NormalizesAlmost, "test_gradient_grows_with_the_loss", "absolute tolerance"),
    (bugs.UnpacksTooMuch, "test_tangent_is_the_directional_derivative", "save_for_backward alone"),
    (bugs.DividesByEach, "test_zeros_give_zeros", "the size of the whole gradient"),
    (bugs.Normalizes, "test_zeros_give_zeros", "elements of the gradient"),
    (bugs.ScalesTheData, "test_incoming_gradients_are_left_alone", "changes the gradient in place"),
    (bugs.ScalesTheGradient, "test_incoming_gradients_are_left_alone", "through .data"),
    (bugs.ClearsTheLast, "test_a_gradient_survives_the_next_backward", BUFFER),
    (bugs.ClearsTheLastOutput, "test_outputs_survive_the_next_call", BUFFER),
    (bugs.Damped, "test_gradient_is_the_derivative", "on the way"),
    (bugs.Damped, "test_gradient_is_the_derivative", "for one"),
    (bugs.Damped, "test_gradient_is_the_derivative", "random"),
    (
        bugs.ThreeForAFlag,
        "test_lazily_negated_gradients_are_taken_as_they_read",
        "ignores the conjugate or negative bit",
    ),
    (bugs.Zeros, "test_layout_of_inputs_makes_no_difference", "gradient"),
    (bugs.TransposesItsInput, "test_every_changed_input_is_marked_dirty", "through .data"),
    (bugs.ScalesItsInputsData, "test_every_changed_input_is_marked_dirty", "shape or strides"),
    (bugs.SavesAViewOfItsOutput, "test_memory_is_freed_with_the_outputs", "a global"),
    (bugs.KeptElsewhere, "test_memory_is_freed_with_the_outputs", "a view of an output"),
    (bugs.KeptElsewhere, "test_memory_is_freed_with_the_outputs", "a function"),
    (bugs.WritesOnItsInput, "test_attributes_of_arguments_are_left_alone", "custom_fwd"),
]


def likely(function, test, *more):
    """What the failures of a test call the likely cause."""
    bugs.REMEMBERED.clear()
    x = torch.linspace(0.3, 1.7, 12, dtype=torch.float64).view(3, 4).requires_grad_()
    with pytest.raises(ConformanceError) as caught:
        check(Subject(function), (x, *more), only=test, strict=True)
    broken = [clause for subject in caught.value.report.subjects for clause in subject.clauses if clause.broken]
    return "\n".join(test.likely for clause in broken for test in clause.tests if test.outcome == "fail")


def test_a_backward_that_raises_while_the_cause_is_looked_for_is_told_for_its_gradient():
    x = torch.linspace(0.3, 1.7, 12, dtype=torch.float64).requires_grad_()
    with pytest.raises(ConformanceError, match=r"FAIL  Function\.backward\.gradient"):
        check(bugs.DampedOnce, (x,), only="test_gradient_is_the_derivative")


def test_a_sparse_tensor_made_of_an_argument_is_an_alias_of_it():
    said = likely(bugs.SavedAsSparse, "test_a_change_in_place_is_noticed_or_does_no_harm", torch.tensor([[0, 2, 1]]))
    assert "an alias, such as .data or a sparse tensor" in said
    assert "shifted" not in said


@pytest.mark.parametrize(("function", "test", "cause"), NAMED)
def test_a_cause_is_named_for_the_bug_that_it_is_about(function, test, cause):
    assert cause in likely(function, test)


def test_an_input_that_is_read_without_a_graph_is_not_laid_to_what_was_saved():
    said = likely(bugs.SavesItsInputAndDetachesIt, SECOND, torch.full((3, 4), 2.0, dtype=torch.float64))
    assert APART in said
    assert BETWEEN not in said


@pytest.mark.parametrize(("function", "test", "cause"), NOT_NAMED)
def test_a_cause_is_not_named_for_a_neighbour_that_breaks_the_same_test(function, test, cause):
    assert cause not in likely(function, test)


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (alike.Exchanged, "the gradient of input 1"),
        (bugs.CountedTwice, "the right value times 2"),
        (sparse.SparseGradientDoubled, "the right value times 2"),
    ],
)
def test_a_gradient_that_is_another_inputs_is_said_to_be_that(function, cause):
    with pytest.raises(ConformanceError, match=f"looks like {cause}"):
        check(function, *function.inputs(), only="test_gradient_is_the_derivative")


def test_a_derivative_that_is_not_conjugated_is_said_to_be_that():
    sample = tuple(torch.randn(3, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    with pytest.raises(ConformanceError, match="looks like the derivative is not conjugated"):
        check(bugs.LacksConj, sample, only="test_gradient_is_the_derivative")


@pytest.mark.parametrize(
    ("function", "said"), [(collective.SumInAnOrderOfItsOwn, True), (collective.ReducedToTheFirst, False)]
)
def test_results_that_differ_in_the_last_digits_are_said_to_be_rounded(function, said):
    x = torch.linspace(0.3, 1.7, 40, dtype=torch.float64, requires_grad=True)
    subject = Subject(function, spec="Collective", types=function.TYPES)
    with pytest.raises(ConformanceError) as caught:
        check(subject, (x, GROUP), ranks=3, only="test_alike_results_are_alike")
    text = str(caught.value)
    assert ("rounding only: ranks compute it in different orders" in " ".join(text.split())) is said
    actual, expected = (
        text.partition(word)[2].partition("float64")[2].split("]")[0] for word in ("actual:", "expected:")
    )
    assert actual != expected, "what is shown differs"


def test_a_result_that_autograd_does_not_record_is_said_to_be_that():
    x = torch.linspace(0.3, 1.7, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError, match="an inference tensor: what is computed from it has no gradient"):
        check(modes.ComputesInInferenceMode, (x,), only="Function.backward.gradient")


@pytest.mark.parametrize(
    ("function", "test"),
    [
        (vmap_generated.SavesInTwoOrders, "test_gradients_through_a_batch"),
        (vmap_generated.AddsUpTheWholeBatch, "test_tangents_through_a_batch"),
        (vmap_generated.TwoOutputs, "test_gradients_through_a_batch"),
    ],
)
def test_wrong_numbers_of_the_generated_rule_are_laid_to_what_it_loses(function, test):
    with pytest.raises(ConformanceError) as caught:
        check(Subject(function, inputs=function.inputs), only=test)
    assert "PyTorch's generated rule" in " ".join(str(caught.value).split())


class LooksAtValues(vmap_generated.NamedTuple):
    """A plain tuple, and a look at the values that no batch allows."""

    @staticmethod
    def forward(x):
        return tuple(torch.topk(x, 2 if float(x.sum()) < torch.inf else 1))


@pytest.mark.parametrize(("function", "said"), [(vmap_generated.NamedTuple, True), (LooksAtValues, False)])
def test_a_named_tuple_is_blamed_where_a_plain_one_is_taken(function, said):
    with pytest.raises(ConformanceError) as caught:
        check(Subject(function, inputs=function.inputs), only="test_batch_equals_its_samples")
    assert ("named tuple" in str(caught.value)) is said


class WritesUnseen(Function):
    """Changes its input through .data, where autograd sees nothing of it."""

    @staticmethod
    def forward(ctx, x):
        x.data.mul_(2)
        return x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class WritesOnce(WritesUnseen):
    """Changes its input as everybody does, and does not say so."""

    @staticmethod
    def forward(ctx, x):
        return x.mul_(2)


class Turns(WritesUnseen):
    """Changes the shape of its input."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x.unsqueeze_(0)


@pytest.mark.parametrize(
    ("function", "said"),
    [(WritesUnseen, "changed through .data"), (WritesOnce, ""), (Turns, "its shape or strides were changed")],
)
def test_an_input_that_is_changed_once_is_not_laid_to_an_alias(function, said):
    x = torch.linspace(0.3, 1.7, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError) as caught:
        check(function, (x,), only="Function.mark_dirty.complete")
    text = " ".join(str(caught.value).split())
    assert "not passed to mark_dirty" in text
    assert said in text
    assert ("looks like" in text) is bool(said)


class Mean(Function):
    """The mean over the second dimension, whose gradient is that of the sum."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.mean(1)

    @staticmethod
    def backward(ctx, grad):
        return grad.unsqueeze(1).expand(ctx.shape)


class MeanOfSome(Mean):
    """The same, and wrong in another way in the first row."""

    @staticmethod
    def backward(ctx, grad):
        gradient = Mean.backward(ctx, grad).clone()
        gradient[0] *= 0.5
        return gradient


@pytest.mark.parametrize(("function", "said"), [(Mean, True), (MeanOfSome, False)])
def test_a_factor_is_told_of_a_gradient_too_large_to_be_shown(function, said):
    x = torch.linspace(0.3, 1.7, 160, dtype=torch.float64).reshape(40, 4).requires_grad_()
    with pytest.raises(ConformanceError) as caught:
        check(function, (x,), only="test_gradient_is_the_derivative")
    assert ("the right value times 4" in str(caught.value)) is said
    assert NOT_MEANT not in str(caught.value)


def test_a_gradient_wrong_for_other_numbers_is_not_laid_to_an_earlier_call():
    with pytest.raises(ConformanceError) as caught:
        check(Subject(numbers.TopWithoutItsGate, inputs=numbers.TopWithoutItsGate.inputs))
    assert "earlier call" not in str(caught.value)
    assert "with value of input 1: the other sign" in str(caught.value)
    assert NOT_MEANT in str(caught.value)


class Many(torch.autograd.Function):
    """Fifty outputs; it counts its calls."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        Many.calls += 1
        ctx.save_for_backward(x)
        return tuple(x * factor + x**2 for factor in range(50))

    @staticmethod
    def backward(ctx, *grads):
        return _of_many(ctx, grads)


class ManyButOne(Many):
    """Forgets one of them."""

    @staticmethod
    def backward(ctx, *grads):
        return _of_many(ctx, (*grads[:17], torch.zeros_like(grads[0]), *grads[18:]))


def _of_many(ctx, grads):
    (x,) = ctx.saved_tensors
    return sum(grad * (factor + 2 * x) for factor, grad in enumerate(grads))


def test_the_cause_among_fifty_outputs_is_found_in_a_few_calls() -> None:
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    one_test = "test_gradient_is_the_derivative"
    check(Many, (x,), only=one_test)
    before, Many.calls = Many.calls, 0
    with pytest.raises(ConformanceError, match="the incoming gradient of output 17 is ignored"):
        check(ManyButOne, (x,), only=one_test)
    assert Many.calls <= before + 20 * x.numel()
