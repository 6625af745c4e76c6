"""A likely cause is named for the bug that it is about, and not for a neighbour that breaks the same test."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import Function

from conformance import GROUP, ConformanceError, Subject, check
from tests.planted import alike, collective, modes, numbers, vmap_generated
from tests.planted._square import Square


class KeepsItsPullback(Function):
    """Returns the very tensor that a function on ctx holds."""

    @staticmethod
    def forward(ctx, x):
        y, ctx.pull = torch.func.vjp(torch.exp, x)
        return y

    @staticmethod
    def backward(ctx, grad):
        return ctx.pull(grad)[0]


class TakesItsResultForTheLoss(Function):
    """Gives the gradient of the sum of its results."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x


REMEMBERED: dict[str, Any] = {}


class KeptBeside(Square):
    """The input is kept on ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.x


class KnowsTheAddress(Square):
    """What is saved has to come back at the same place in memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.address = x.data_ptr()
        return Square.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x if x.data_ptr() == ctx.address else 3 * grad * x


class DecoratedForCtx(Square):
    """custom_fwd expects ctx first, and there is none."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)


class WritesOnItsInput(Square):
    """Leaves a note on its input."""

    @staticmethod
    def forward(ctx, x):
        x.seen = True
        return Square.forward(ctx, x)


class SavedAnAlias(Square):
    """What is saved shares the input's memory, and not its version."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.data)
        return x * x


class SavedAsSparse(Function):
    """What is saved is a sparse tensor that was made of the indices, and shares their memory."""

    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_backward(torch.sparse_coo_tensor(index, x.detach(), (3, *x.shape[1:])))
        return torch.zeros_like(x).index_add(0, index[0], x)

    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return grad[kept._indices()[0]], None


class ChangesBack(Square):
    """Backward works on its input, and undoes that."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        right = 2 * grad * x
        x.data.mul_(0.1).div_(0.1)
        return right


class KeptElsewhere(Square):
    """The input of the last call is kept in the module."""

    @staticmethod
    def forward(ctx, x):
        REMEMBERED["x"] = x.detach()
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * REMEMBERED["x"]


def in_order(tensor):
    """The memory of a tensor, read as if it were contiguous."""
    return torch.as_strided(tensor, tensor.shape, torch.empty(tensor.shape).stride())


class ReadsInOrder(Square):
    """Forward takes its input for contiguous."""

    @staticmethod
    def forward(ctx, x):
        return Square.forward(ctx, in_order(x.detach()))


class SavesInOrder(Square):
    """Backward alone takes the input for contiguous."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * in_order(x)


class OtherNumbersElsewhere(Square):
    """Another formula for what is not contiguous."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x if x.is_contiguous() else 1.5 * x * x


class OtherGradientElsewhere(Square):
    """Another gradient for what is not contiguous."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x if x.is_contiguous() else 2.5 * grad * x


class Normalizes(Square):
    """It divides by the norm of the gradient, and multiplies again."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * (grad / grad.norm()) * grad.norm()


class DividesByEach(Square):
    """It divides by every element of the gradient."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * (grad * grad / grad)


class OneBuffer(Square):
    """Every backward writes into the same memory."""

    @staticmethod
    def backward(ctx, grad):
        right = Square.backward(ctx, grad)
        buffer = REMEMBERED.setdefault(f"gradient {tuple(right.shape)}", torch.empty_like(right))
        return buffer.copy_(right)


class ClearsTheLast(Square):
    """Every backward clears what the one before returned."""

    @staticmethod
    def backward(ctx, grad):
        if "last" in REMEMBERED:
            REMEMBERED["last"].zero_()
        REMEMBERED["last"] = Square.backward(ctx, grad)
        return REMEMBERED["last"]


class OneOutput(Square):
    """Every call writes its result into the same memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return REMEMBERED.setdefault(f"output {tuple(x.shape)}", torch.empty_like(x)).copy_(x * x)


class ClearsTheLastOutput(Square):
    """Every call clears the result of the one before."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if "result" in REMEMBERED:
            REMEMBERED["result"].zero_()
        REMEMBERED["result"] = x * x
        return REMEMBERED["result"].view_as(x)


class Rounded(Square):
    """The gradient goes through half precision."""

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad).half().to(grad.dtype)


class Damped(Square):
    """A small number is added to what is divided by."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.abs() * x / (x.abs() + 1e-3)


class IgnoresTheFlag(Square):
    """It takes a lazily negated gradient for what stands in memory."""

    @staticmethod
    def backward(ctx, grad):
        plain = -grad.resolve_neg() if grad.is_neg() else grad
        return Square.backward(ctx, plain)


class ThreeForAFlag(Square):
    """Another gradient for what is lazily negated."""

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, 3 * grad if grad.is_neg() else grad)


class Zeros(Square):
    """The result is zeros."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x if x.is_contiguous() else torch.zeros_like(x)


class ScalesTheGradient(Square):
    """Backward works in place on the gradient."""

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(2) * ctx.saved_tensors[0]


class ScalesTheData(Square):
    """Backward works in place on an alias of the gradient."""

    @staticmethod
    def backward(ctx, grad):
        grad.data.mul_(2)
        return grad * ctx.saved_tensors[0]


class TransposesItsInput(Square):
    """Forward transposes the input itself, in place."""

    @staticmethod
    def forward(ctx, x):
        y = x.t_() * 1
        ctx.save_for_backward(y.t())
        return (y * y).t()


class ScalesItsInputsData(Square):
    """Forward changes an alias of its input."""

    @staticmethod
    def forward(ctx, x):
        x.data.mul_(2)
        return Square.forward(ctx, x)


class SavesAViewOfItsOutput(Square):
    """A view of the output is saved, which keeps the output and its graph."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y.view(-1))
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].view(grad.shape)


class CountedTwice(alike.Exchanged):
    """Counts each gradient twice."""

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return 2 * grad * y, 2 * grad * x


BESIDE = "a tensor that was kept beside save_for_backward"
IN_ORDER = "takes memory for contiguous"
BUFFER = "share a buffer"
#: The bug, the test that sees it, and the cause that it must name.
NAMED = [
    (KeptBeside, "test_hooks_can_carry_saved_tensors_away", BESIDE),
    (KeptBeside, "test_a_change_in_place_is_noticed_or_does_no_harm", "did not go through save_for_backward"),
    (SavedAnAlias, "test_a_change_in_place_is_noticed_or_does_no_harm", "an alias"),
    (KeptElsewhere, "test_a_change_in_place_is_noticed_or_does_no_harm", "PyTorch does not watch"),
    (ChangesBack, "test_arguments_are_left_as_they_are", "changed back, but for rounding"),
    (ReadsInOrder, "test_layout_of_inputs_makes_no_difference", f"forward {IN_ORDER}"),
    (SavesInOrder, "test_layout_of_inputs_makes_no_difference", f"backward {IN_ORDER}"),
    (Normalizes, "test_zeros_give_zeros", "the size of the whole gradient"),
    (DividesByEach, "test_zeros_give_zeros", "elements of the gradient"),
    (ScalesTheGradient, "test_incoming_gradients_are_left_alone", "works in place on the gradient"),
    (ScalesTheData, "test_incoming_gradients_are_left_alone", "through .data"),
    (OneBuffer, "test_a_gradient_survives_the_next_backward", BUFFER),
    (OneOutput, "test_outputs_survive_the_next_call", BUFFER),
    (Rounded, "test_gradient_is_the_derivative", "float16 on the way"),
    (TakesItsResultForTheLoss, "test_gradient_is_the_derivative", "takes its incoming gradient for one"),
    (IgnoresTheFlag, "test_lazily_negated_gradients_are_taken_as_they_read", "as if it were plain"),
    (TransposesItsInput, "test_every_changed_input_is_marked_dirty", "shape or strides were changed"),
    (ScalesItsInputsData, "test_every_changed_input_is_marked_dirty", "through .data"),
    (SavesAViewOfItsOutput, "test_memory_is_freed_with_the_outputs", "a view of an output"),
    (KeptElsewhere, "test_memory_is_freed_with_the_outputs", "a global"),
    (KeepsItsPullback, "test_memory_is_freed_with_the_outputs", "ctx.pull is a function that may hold a result"),
    (DecoratedForCtx, "test_attributes_of_arguments_are_left_alone", "custom_fwd on a forward without ctx"),
]
#: The neighbour, the test that sees it, and what must not be said of it.
NOT_NAMED = [
    (KnowsTheAddress, "test_hooks_can_carry_saved_tensors_away", BESIDE),
    (KeptElsewhere, "test_a_change_in_place_is_noticed_or_does_no_harm", "save"),
    (OtherNumbersElsewhere, "test_layout_of_inputs_makes_no_difference", IN_ORDER),
    (OtherGradientElsewhere, "test_layout_of_inputs_makes_no_difference", IN_ORDER),
    (DividesByEach, "test_zeros_give_zeros", "the size of the whole gradient"),
    (Normalizes, "test_zeros_give_zeros", "elements of the gradient"),
    (ScalesTheData, "test_incoming_gradients_are_left_alone", "works in place on the gradient"),
    (ScalesTheGradient, "test_incoming_gradients_are_left_alone", "through .data"),
    (ClearsTheLast, "test_a_gradient_survives_the_next_backward", BUFFER),
    (ClearsTheLastOutput, "test_outputs_survive_the_next_call", BUFFER),
    (Damped, "test_gradient_is_the_derivative", "on the way"),
    (Damped, "test_gradient_is_the_derivative", "for one"),
    (ThreeForAFlag, "test_lazily_negated_gradients_are_taken_as_they_read", "as if it were plain"),
    (Zeros, "test_layout_of_inputs_makes_no_difference", "gradient"),
    (TransposesItsInput, "test_every_changed_input_is_marked_dirty", "through .data"),
    (ScalesItsInputsData, "test_every_changed_input_is_marked_dirty", "shape or strides"),
    (SavesAViewOfItsOutput, "test_memory_is_freed_with_the_outputs", "a global"),
    (KeptElsewhere, "test_memory_is_freed_with_the_outputs", "a view of an output"),
    (KeptElsewhere, "test_memory_is_freed_with_the_outputs", "a function"),
    (WritesOnItsInput, "test_attributes_of_arguments_are_left_alone", "custom_fwd"),
]


def likely(function, test, *more):
    """What the failures of a test call the likely cause."""
    REMEMBERED.clear()
    x = torch.linspace(0.3, 1.7, 12, dtype=torch.float64).view(3, 4).requires_grad_()
    with pytest.raises(ConformanceError) as caught:
        check(Subject(function), (x, *more), only=test, strict=True)
    broken = [clause for subject in caught.value.report.subjects for clause in subject.clauses if clause.broken]
    return "\n".join(test.likely for clause in broken for test in clause.tests if test.outcome == "fail")


def test_a_sparse_tensor_made_of_an_argument_is_an_alias_of_it():
    said = likely(SavedAsSparse, "test_a_change_in_place_is_noticed_or_does_no_harm", torch.tensor([[0, 2, 1]]))
    assert "an alias, such as .data or a sparse tensor" in said
    assert "shifted" not in said


@pytest.mark.parametrize(("function", "test", "cause"), NAMED)
def test_a_cause_is_named_for_the_bug_that_it_is_about(function, test, cause):
    assert cause in likely(function, test)


@pytest.mark.parametrize(("function", "test", "cause"), NOT_NAMED)
def test_a_cause_is_not_named_for_a_neighbour_that_breaks_the_same_test(function, test, cause):
    assert cause not in likely(function, test)


@pytest.mark.parametrize(
    ("function", "cause"), [(alike.Exchanged, "the gradient of input 1"), (CountedTwice, "the right value times 2")]
)
def test_a_gradient_that_is_another_inputs_is_said_to_be_that(function, cause):
    with pytest.raises(ConformanceError, match=f"looks like {cause}"):
        check(function, *function.inputs(), only="test_gradient_is_the_derivative")


@pytest.mark.parametrize(
    ("function", "said"), [(collective.SumInAnOrderOfItsOwn, True), (collective.ReducedToTheFirst, False)]
)
def test_results_that_differ_in_the_last_digits_are_said_to_be_rounded(function, said):
    x = torch.linspace(0.3, 1.7, 40, dtype=torch.float64, requires_grad=True)
    subject = Subject(function, spec="Collective", types=function.TYPES)
    with pytest.raises(ConformanceError) as caught:
        check(subject, (x, GROUP), ranks=3, only="test_alike_results_are_alike")
    text = str(caught.value)
    assert ("rounding alone: ranks compute it in different orders" in " ".join(text.split())) is said
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
    assert "not given to mark_dirty" in text
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


def test_a_gradient_wrong_for_other_numbers_is_not_laid_to_an_earlier_call():
    with pytest.raises(ConformanceError) as caught:
        check(Subject(numbers.TopWithoutItsGate, inputs=numbers.TopWithoutItsGate.inputs))
    assert "earlier call" not in str(caught.value)
    assert "with other numbers in" in str(caught.value)
